package view_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestWeightOfEntries: what turns know of each entry of a long log weighs, although few turns are kept.
func TestWeightOfEntries(t *testing.T) {
	turns := view.NewTurns("", "c", view.Keep{Turns: 1})
	for seq := range uint64(2000) {
		id := fmt.Sprint("m", seq)
		e := &conversation.Entry{
			Seq: seq + 1, Time: time.Unix(int64(seq), 0), Turn: id, //nolint:gosec // few
			Cause: &transport.Event{ID: id, From: "user", ContextID: "c", Payload: &a2a.Message{
				ID: id, ContextID: "c", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")},
			}},
			Decision: &llm.Decision{Kind: llm.KindRespond, Say: "hi"},
		}
		if _, err := turns.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if own := turns.Weight() - turns.Conversation.Weight(); len(turns.List) != 1 || own < 2000*48 {
		t.Errorf("%d turns of 2000 entries weigh %d bytes beside the conversation", len(turns.List), own)
	}
}
