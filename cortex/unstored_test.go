package cortex_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// full is a store with a full disk, until there is room: it can be read.
type full struct {
	storage.Store
	storage.SpendLog
	room  atomic.Bool
	tries atomic.Int32
}

var errFull = errors.New("no space left on device")

func (s *full) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	s.tries.Add(1)
	if !s.room.Load() {
		return 0, errFull
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// fill restarts w's orchestrator with a full disk.
func (w *world) fill(cfg cortex.Config) *full {
	w.stop()
	s := &full{Store: w.store, SpendLog: w.store.(storage.SpendLog)}
	cfg.Store = s
	w.start(cfg)
	return s
}

// TestFullDisk checks that a decision is paid for once, however often its entry cannot be stored, and stored when it can be. Its
// tasks then have their whole time.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := costing(answering)
		w := newWorld(t, decider)
		s := w.fill(cortex.Config{Decider: decider, Budget: budget.Limits{Turn: llm.Budget{Tokens: 1000}}})
		w.say("m1", "work")
		pass(time.Hour)
		if n := len(w.decisions()); n != 1 || s.tries.Load() < 10 {
			t.Errorf("%d decisions and %d tries to store, want 1 and many", n, s.tries.Load())
		}
		if got := w.spentOn(time.Now()); got != each {
			t.Errorf("spent today %+v, want %+v", got, each)
		}
		s.room.Store(true)
		pass(2 * time.Minute)
		w.finish("alpha", w.onlyTask("alpha"), "done")
		if n := len(w.decisions()); n != 2 {
			t.Errorf("%d decisions, want 2", n)
		}
		if conv := w.load(); conv.Usage != times(2, each) || conv.Tasks[w.onlyTask("alpha")].State() != a2a.TaskStateCompleted {
			t.Errorf("the conversation cost %+v, its task is %+v", conv.Usage, conv.Tasks[w.onlyTask("alpha")])
		}
		w.wantFold()
	})
}

// TestFullDiskAndAnother has the conversation go on elsewhere meanwhile: the decision is made anew, and both count.
func TestFullDiskAndAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := costing(answering)
		w := newWorld(t, decider)
		s := w.fill(cortex.Config{Decider: decider})
		w.say("m1", "a")
		pass(time.Minute)
		other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
		if _, err := w.store.Append(t.Context(), "", theContext, 0, other); err != nil {
			t.Fatal(err)
		}
		s.room.Store(true)
		pass(2 * time.Minute)
		w.wantAnswer("m1", "heard a")
		if n := len(w.decisions()); n != 2 || len(w.decisions()[1].History) != 1 {
			t.Errorf("%d decisions, want 2, of which the second saw the other turn", n)
		}
		if got := w.load().Usage; got != times(2, each) {
			t.Errorf("the conversation cost %+v, want %+v", got, times(2, each))
		}
	})
}
