package cortex_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestDecisionThatStillFits has another writer append first. The decision is kept if the decider saw nothing that has
// changed, and made anew otherwise, with the cost of both.
func TestDecisionThatStillFits(t *testing.T) {
	tests := map[string]struct {
		other conversation.Entry
		once  bool
		want  string
	}{
		"an open turn": {conversation.Entry{Turn: "m0"}, true, "after 0 others"},
		"an answer":    {conversation.Entry{Turn: "m0", Decision: respond("yes")}, false, "after 1 others"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := costing(simple(func(t *llm.Turn) *llm.Decision { return respond(fmt.Sprintf("after %d others", len(t.History))) }))
				w := newWorld(t, d)
				other := test.other
				other.Seq, other.Time, other.Cause = 1, time.Now(), userEvent("m0", "first")
				w.restart(cortex.Config{Decider: d, Store: &conflicting{w.store, &other}})
				w.say("m1", "second")
				w.wantAnswer("m1", test.want)
				want := 2
				if test.once {
					want = 1
				}
				if n := len(w.decisions()); n != want || w.load().Usage != times(want, each) || w.orch.Stats().Conflicts != 1 {
					t.Errorf("%d decisions, %d conflicts, cost %+v, want %d, 1, %+v", n, w.orch.Stats().Conflicts, w.load().Usage, want, times(want, each))
				}
				w.wantFold()
			})
		})
	}
}

// TestDelegationThatStillFits checks that the tasks of a decision that came second are sent once, and counted once.
func TestDelegationThatStillFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := costing(once(toAlpha))
		w := newWorld(t, d)
		other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0"}
		w.restart(cortex.Config{Decider: d, Store: &conflicting{w.store, other}, Policy: rules(t, "rules: [{agents: [alpha], at_once: 1}]")})
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
		if n := len(w.decisions()); n != 2 || w.load().Usage != times(2, each) {
			t.Errorf("%d decisions, cost %+v, want 2, %+v", n, w.load().Usage, times(2, each))
		}
		w.wantFold()
	})
}

// contended is a store that reports a number of conflicts.
type contended struct {
	storage.Store
	left, tries atomic.Int32
}

func (s *contended) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	s.tries.Add(1)
	if s.left.Add(-1) >= 0 {
		return 0, storage.ErrConflict
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// TestConflictsAreBounded has conflicts without end: the event goes back to the transport, and nothing is paid for twice.
func TestConflictsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := costing(simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		w := newWorld(t, d)
		s := &contended{Store: w.store}
		s.left.Store(40)
		w.restart(cortex.Config{Decider: d, Store: s})
		w.say("m1", "go")
		if n := s.tries.Load(); n != 16 {
			t.Errorf("%d tries at once, want 16", n)
		}
		if got := w.orch.Trouble(); len(got) != 1 {
			t.Errorf("trouble %q, want that of m1", got)
		}
		pass(time.Minute)
		w.wantAnswer("m1", "ok")
		if n := len(w.decisions()); n != 1 || w.load().Usage != each {
			t.Errorf("%d decisions, cost %+v, want 1, %+v", n, w.load().Usage, each)
		}
		w.wantFold()
	})
}
