package cortex_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// follower notes what it is told.
type follower struct {
	mu       sync.Mutex
	measured []conversation.Measured
	loaded   map[string]int // running tasks, by context id
	deleted  []conversation.Key
}

var _ cortex.Follower = (*follower)(nil)

func (f *follower) Appended(_ *conversation.Conversation, e *conversation.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measured = append(f.measured, e.Measured)
}

func (f *follower) Loaded(conv *conversation.Conversation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded == nil {
		f.loaded = map[string]int{}
	}
	f.loaded[conv.ContextID] = len(conv.Running())
}

func (f *follower) Deleted(key conversation.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted = append(f.deleted, key)
}

// TestFollower tells an observer of a conversation that another process has left with a task, though nothing happens in it, and of its deletion.
func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		f := &follower{}
		cfg := cortex.Config{Decider: once(toAlpha), Observers: []cortex.Observer{f}}
		w.restart(cfg)
		pass(time.Minute)
		f.mu.Lock()
		if f.loaded[theContext] != 1 || len(f.measured) != 0 {
			t.Errorf("after the takeover, %d tasks of the conversation are known, want 1; and %d entries, want none", f.loaded[theContext], len(f.measured))
		}
		f.mu.Unlock()
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), &transport.Event{
			ID: "forget", Time: time.Now(), From: "user", ContextID: theContext, Payload: &transport.Forget{},
		}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.deleted) != 1 || f.deleted[0].ContextID != theContext {
			t.Errorf("deleted: %v, want the conversation", f.deleted)
		}
	})
}

// TestMeasured checks what observers are told beside the entry.
func TestMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &follower{}
		w := newWorldOf(t, agentIDs)
		w.start(cortex.Config{Observers: []cortex.Observer{f}, Decider: decideFunc(func(_ context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
			<-time.After(2 * time.Second)
			if len(t.Steps) == 0 {
				return delegate(toAlpha), nil
			}
			stream("do")
			<-time.After(3 * time.Second)
			return respond("done"), nil
		})})
		w.say("m1", "go")
		pass(5 * time.Second)
		asked := time.Now()
		w.finish("alpha", w.onlyTask("alpha"), "A")
		pass(10 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.measured) != 2 {
			t.Fatalf("%d entries, want 2", len(f.measured))
		}
		if first := f.measured[0]; !first.FirstText.IsZero() || first.Shown != len(agentIDs) || first.Exhausted != "" {
			t.Errorf("the delegation was measured as %+v, want no text, and three agents", first)
		}
		if at := f.measured[1].FirstText.Sub(asked); at < 2*time.Second || at >= 3*time.Second {
			t.Errorf("the first text of the answer was shown after %v, want 2 s and a moment", at)
		}
	})
}

// TestStatsOfTrouble counts what rules deny, and what cannot be sent.
func TestStatsOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := offered("")
		for i := range agents {
			agents[i].Card.Skills = append(agents[i].Card.Skills, a2a.AgentSkill{ID: "pay", Name: "Pay"})
		}
		cfg := cortex.Config{
			Agents: func(string) []prompt.Agent { return agents }, Policy: rules(t, `rules: [{agents: [beta], skills: [pay], allow: false}]`),
			Decider: simple(func(t *llm.Turn) *llm.Decision {
				if len(t.Steps) > 0 {
					return respond(results(t))
				}
				return delegate(llm.Delegation{ID: "1", Agent: t.User, Skill: "pay", Task: sixfold(700_000)})
			}),
		}
		w := newWorldOf(t, agentIDs)
		w.start(cfg)
		w.say("m1", "alpha")
		w.say("m2", "beta")
		want := cortex.Stats{
			Entries: 3, Decisions: 3, Failures: 1, Unsent: cortex.Unsent{TooLarge: 1}, Denied: decide.Denied{Agent: 1}, Gained: transport.Partitions,
		}
		if diff := cmp.Diff(want, w.orch.Stats()); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
		cfg.Policy = rules(t, `tenants: {deny: ["*"]}`)
		w.restart(cfg)
		w.say("m3", "alpha")
		if got := w.orch.Stats().Denied; got != (decide.Denied{Tenant: 1}) {
			t.Errorf("denied: %+v, want a turn of a tenant that is not served", got)
		}
	})
}
