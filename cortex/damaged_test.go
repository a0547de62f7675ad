package cortex_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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

// TestDamagedConversation sends a message to a conversation with a damaged log: the user is told at once, and the message is kept until
// the log is repaired.
func TestDamagedConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		w.restart(cortex.Config{Decider: d, Store: damagedStore{w.store, theContext}})
		w.say("m2", "more")
		got := w.liveAnswers()
		if len(got) != 1 || !strings.Contains(got[0], "damaged") || !strings.Contains(got[0], "cortex doctor") {
			t.Errorf("told %q, want once that it is damaged, and what to do", got)
		}
		var reasons []string
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, d.Reason)
		}
		if !slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(r, conversation.ErrDamaged.Error()) }) {
			t.Errorf("dead letters say %q, want one that the log is damaged", reasons)
		}
	})
}
