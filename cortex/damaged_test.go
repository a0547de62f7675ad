package cortex_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

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
