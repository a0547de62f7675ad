package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// toBoth is a decider that delegates to alpha and beta at once, and answers with the results.
var toBoth = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
	}
	return respond(results(t))
})

// run runs an agent of the kit.
func (w *world) run(id string, o *agents.Options, h agents.Handler) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() {
		card := &a2a.AgentCard{Name: id, Version: "1.0.0", Skills: []a2a.AgentSkill{{ID: "skill", Name: "Skill"}}}
		done <- agents.Serve(ctx, w.bus, card, h, o)
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("%s ended: %v", id, err)
		}
	})
}

// TestBoardOfTask has alpha post, and beta, which watches, post what it has seen; alpha waits for that.
func TestBoardOfTask(t *testing.T) {
	for _, test := range []struct {
		name, rules, posted string
		there               func(string) []prompt.Agent
		want                string
	}{
		{"open", "", "plan B", with(agentcard.Blackboard), "alpha COMPLETED alpha first plan B, beta second seen plan B; beta COMPLETED ok; "},
		{"no card says so", "", "plan B", offered, "alpha FAILED post: the task has no board; beta FAILED watch: the task has no board; "},
		{"closed by a rule", `rules: [{agents: ["*"], board: false}]`, "plan B", with(agentcard.Blackboard), "alpha FAILED post: the task has no board; beta FAILED watch: the task has no board; "},
		{"redacted", `rules: [{agents: ["*"], evaluators: [no_pii]}]`, "mail ann@example.com", with(agentcard.Blackboard), "alpha COMPLETED alpha first mail [no_pii], beta second seen mail [no_pii]; beta COMPLETED ok; "},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, nil)
				cfg := cortex.Config{Decider: toBoth, Agents: test.there}
				if test.rules != "" {
					p, err := policy.Parse("policy.yaml", []byte(test.rules))
					if err != nil {
						t.Fatal(err)
					}
					cfg.Policy = func() *policy.Policy { return p }
				}
				w.start(cfg)
				w.run("alpha", nil, func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
					if err := task.Board().Post(ctx, "first", test.posted, time.Minute); err != nil {
						return nil, err
					}
					for p, err := range task.Board().Watch(ctx) {
						if err != nil {
							return nil, err
						}
						if p.Agent == "beta" {
							break
						}
					}
					all, err := task.Board().Read(ctx)
					var said []string
					for _, p := range all {
						said = append(said, fmt.Sprint(p.Agent, " ", p.Name, " ", strings.ReplaceAll(p.Text, "@", " at "))) // what the board shows, not the result, is redacted
					}
					return agents.Text(strings.Join(said, ", ")), err
				})
				w.run("beta", nil, func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
					for p, err := range task.Board().Watch(ctx) {
						if err != nil {
							return nil, err
						}
						if err := task.Board().Post(ctx, "second", "seen "+p.Text, 0); err != nil {
							return nil, err
						}
						break
					}
					return agents.Text("ok"), nil
				})
				w.say("m1", "go")
				pass(30 * time.Second)
				w.wantAnswer("m1", test.want)
				w.wantFold()
			})
		})
	}
}

// TestForgedPost has an agent post and read in the name of tasks that are not its own.
func TestForgedPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toBoth)
		w.stop()
		w.start(cortex.Config{Decider: toBoth, Agents: with(agentcard.Blackboard)})
		w.say("m1", "go")
		id := w.onlyTask("alpha")
		for _, p := range []transport.Payload{&transport.Post{Name: "x", Text: "forged"}, &transport.ReadBoard{}} {
			for _, from := range []string{"beta", "gamma", "user", "cortex"} {
				kind, _ := transport.PayloadKind(p)
				w.publish(&transport.Event{ID: "f-" + kind + from, From: from, ContextID: theContext, TaskID: id, Payload: p})
			}
		}
		if err := transport.ForCortex(&transport.Event{Payload: &transport.ReadBoard{}}); err == nil {
			t.Error("a reading without a task is taken")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.ctl {
			if _, ok := e.Payload.(*transport.Board); ok {
				t.Errorf("%s got a board", e.From)
			}
		}
		if n := len(entries(t, w.store)); n != 1 {
			t.Errorf("the log has %d entries, want that of the message", n)
		}
	})
}
