package cli

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// receiptAfter is a store to which an entry is added at the third look.
type receiptAfter struct {
	*memstore.Store
	looks int
	add   func()
}

func (r *receiptAfter) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	if r.looks++; r.looks == 3 && r.add != nil {
		r.add()
	}
	return r.Store.Load(ctx, tenant, contextID, after)
}

// TestAskWaitsForTheReceipt checks that ask ends with a question only when a yes of the next command counts for it, and that it ends although the
// receipt never comes.
func TestAskWaitsForTheReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		store := &receiptAfter{Store: memstore.New()}
		conv := conversation.NewConversation("", "c")
		add := func(e *conversation.Entry, id string, p transport.Payload) {
			e.Seq, e.Time, e.Deadline = conv.Seq+1, now, now.Add(time.Minute)
			e.Cause = &transport.Event{ID: id, Time: now, From: "user", ContextID: "c", Payload: p}
			var err error
			if e.Version, err = store.Append(t.Context(), "", "c", conv.Version, e); err != nil {
				t.Fatal(err)
			}
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		d := &llm.Decision{Kind: llm.KindDelegate, Model: "m", Delegations: []llm.Delegation{{ID: "a", Agent: "payer", Task: "pay"}}}
		add(&conversation.Entry{Turn: "t", Decision: d, Consent: "Do it?", Asked: now, ReplyBy: now.Add(time.Hour)}, "m1", &a2a.Message{
			ID: "m1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("pay")},
		})
		held := conv.WaitsFor("t")
		if held == nil || held.Phase != conversation.Held {
			t.Fatalf("the turn leaves %v, want a held task", held)
		}
		b := &backend{link: &link{store: store}}

		b.delivered(t.Context(), held, "c")
		if waited := time.Since(now); waited != deliveredTimeout {
			t.Errorf("without a receipt it waits for %v, want %v", waited, deliveredTimeout)
		}

		now, store.looks = time.Now(), 0
		store.add = func() {
			add(&conversation.Entry{Turn: "t"}, conv.ID(conv.Turn("t").AnswerSeq, "told:t", 0), &transport.Deadline{At: now})
		}
		b.delivered(t.Context(), held, "c")
		if waited := time.Since(now); store.looks != 3 || waited >= deliveredTimeout {
			t.Errorf("%d looks in %v, want 3 and then an end", store.looks, waited)
		}
		if loaded, err := storage.Load(t.Context(), store, "", "c"); err != nil || !loaded.Turn("t").Delivered {
			t.Errorf("the receipt is not known: %v", err)
		}
	})
}
