package conversation_test

import (
	"encoding/json"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestTrace checks that all events of a turn carry the trace context of its message, whatever that of a result is, also after reading the log
// again or a snapshot.
func TestTrace(t *testing.T) {
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "rojo=1"
	s := newScript(t)
	var log []*conversation.Entry
	var shown []string // the kind and the trace of every effect but the timer
	check := func(c *conversation.Conversation, seq uint64) {
		for _, e := range c.Effects(seq) {
			if _, ok := e.Event.Payload.(*transport.Deadline); ok {
				continue
			}
			kind, _ := transport.PayloadKind(e.Event.Payload)
			shown = append(shown, kind)
			if e.Event.Traceparent != parent || e.Event.Tracestate != state {
				t.Errorf("%s to %v has the trace %q, %q, want that of its turn", kind, e.Topic, e.Event.Traceparent, e.Event.Tracestate)
			}
		}
	}
	step := func(e *transport.Event, d *llm.Decision) {
		entry := s.apply(e, d)
		log = append(log, entry)
		check(s.conv, entry.Seq)
	}
	m := says("user", "m1", "do it")
	m.Traceparent, m.Tracestate = parent, state
	step(m, &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "a", Agent: "alpha", Task: "do"}}})
	task := s.conv.TasksOf(s.conv.Turns[0])[0].ID
	r := reports("alpha", "r1", task, a2a.TaskStateCompleted, "done")
	r.Traceparent = "00-ffffffffffffffffffffffffffffffff-b7ad6b7169203331-01"
	step(r, &llm.Decision{Kind: llm.KindRespond, Say: "It is done."})
	want := []string{"task", "message", "status-update", "message"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}

	again := conversation.NewConversation("", "c1")
	for _, e := range log {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var read conversation.Entry
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		read.Version = e.Version
		if err := again.Apply(&read); err != nil {
			t.Fatal(err)
		}
		snapshot, err := again.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if again, err = conversation.ReadSnapshot(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(s.conv.Effects(2), again.Effects(2), cmpopts.IgnoreUnexported(transport.Event{})); diff != "" {
		t.Errorf("effects of the log read again (-want +got):\n%s", diff)
	}
}
