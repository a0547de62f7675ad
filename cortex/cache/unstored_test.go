package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

var t0 = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

func message(id string) *transport.Event {
	return &transport.Event{ID: id, From: "user", Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser}}
}

// TestUnstoredIsBounded checks that the kept entries are bounded, that Full stops further decisions, and that entries whose events do not come
// again make room.
func TestUnstoredIsBounded(t *testing.T) {
	u := cache.NewUnstored()
	paid := func(id string) *conversation.Entry {
		return &conversation.Entry{Seq: 1, Cause: message(id), Decision: &llm.Decision{Kind: llm.KindRespond, Say: "ok"}}
	}
	key := conversation.EventKey(message("m"))
	n := 0
	for ; !u.Full(t0); n++ {
		u.Put(conversation.NewConversation("", fmt.Sprint("c", n)), 0, paid("m"), t0)
	}
	if n != 4096 {
		t.Errorf("full with %d entries, want 4096", n)
	}
	if !u.Full(t0.Add(14*time.Minute)) || u.Full(t0.Add(16*time.Minute)) {
		t.Error("it is not full for a quarter of an hour")
	}
	if u.Take(cache.EventKey{ContextID: "c0", Event: key}) != nil || u.Take(cache.EventKey{ContextID: "c1", Event: key}) == nil {
		t.Error("not the oldest entry made room")
	}
	u.Put(conversation.NewConversation("", "c5000"), 0, &conversation.Entry{Seq: 1, Cause: message("m")}, t0)
	if u.Take(cache.EventKey{ContextID: "c5000", Event: key}) != nil {
		t.Error("an entry that cost nothing is kept")
	}
}
