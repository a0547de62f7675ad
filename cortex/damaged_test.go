package cortex_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// damagedStore cannot read one conversation.
type damagedStore struct {
	storage.Store
	contextID string
}

func (s damagedStore) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	if contextID != s.contextID {
		return s.Store.Load(ctx, tenant, contextID, after)
	}
	return func(yield func(*conversation.Entry, error) bool) { yield(nil, conversation.ErrDamaged) }
}

// TestDamagedConversation sends a message to a conversation with a damaged log: the user is told at once, and it is no dead letter, which would displace
// others. The result of a task is kept until the log is repaired.
func TestDamagedConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		task := w.onlyTask("alpha")
		w.restart(cortex.Config{Decider: d, Store: damagedStore{w.store, theContext}})
		w.say("m2", "more")
		got := w.liveAnswers()
		if len(got) != 1 || !strings.Contains(got[0], "damaged") || !strings.Contains(got[0], "cortex doctor") {
			t.Errorf("told %q, want once that it is damaged, and what to do", got)
		}
		w.publish(resultEvent("r1", "alpha", task, a2a.TaskStateCompleted, "A"))
		var reasons []string
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if d.Event.ID != "m2" && d.Event.ID != "r1" {
				continue
			}
			reasons = append(reasons, d.Event.ID+" "+d.Reason)
		}
		if len(reasons) != 1 || !strings.HasPrefix(reasons[0], "r1 ") || !strings.Contains(reasons[0], conversation.ErrDamaged.Error()) {
			t.Errorf("dead letters say %q, want one of the result, that the log is damaged", reasons)
		}
	})
}

// TestDamagedConversationIsFlooded sends to a conversation with a damaged log what is worth nothing after its repair, and results without end: few become dead
// letters, which would displace others.
func TestDamagedConversationIsFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		task := w.onlyTask("alpha")
		w.restart(cortex.Config{Decider: d, Store: damagedStore{w.store, theContext}})
		event := func(id, from string, p transport.Payload) *transport.Event {
			return &transport.Event{ID: id, Time: time.Now(), From: from, To: transport.Cortex, ContextID: theContext, TaskID: task, Payload: p}
		}
		for n := range 5 {
			w.publish(event(fmt.Sprint("cancel", n), "user:eve", &transport.Cancel{}))
			w.publish(event(fmt.Sprint("board", n), "alpha", &transport.ReadBoard{}))
			w.publish(resultEvent(fmt.Sprint("works", n), "alpha", task, a2a.TaskStateWorking, "on it"))
		}
		const size, most = 1 << 20, 16
		for n := range most + 4 {
			w.publish(resultEvent(fmt.Sprint("r", n), "alpha", task, a2a.TaskStateCompleted, strings.Repeat("a", size)))
		}
		kept := 0
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			switch {
			case err != nil:
				t.Fatal(err)
			case d.Event.From == "alpha" && strings.HasPrefix(d.Event.ID, "r"):
				kept++
			case d.Event.From != transport.Cortex:
				t.Errorf("%s is a dead letter", d.Event.ID)
			}
		}
		if kept == 0 || kept >= most {
			t.Errorf("%d of %d results are dead letters", kept, most+4)
		}
	})
}
