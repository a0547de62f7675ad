package agenthub

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
)

// TestHeavyMessage publishes a message of few bytes that takes much memory. It is refused before it is decoded; a long text is not.
func TestHeavyMessage(t *testing.T) {
	w := newWorld(t)
	w.serve()
	routing := &hubpb.AgentEventMetadata{FromAgentId: "a", ToAgentId: "b"}
	heavy := heavyMessage("1")
	if _, err := w.dial().PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: heavy, Routing: routing}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "too many values") {
		t.Errorf("a message of many values: %v", err)
	}
	long := &hubpb.Message{MessageId: "2", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text(strings.Repeat("x", 3<<20))}}
	if _, err := w.dial().PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: long, Routing: routing}); err != nil {
		t.Errorf("a long message: %v", err)
	}
}

// heavyMessage returns a message of few bytes that takes much memory.
func heavyMessage(id string) *hubpb.Message {
	list := &structpb.ListValue{Values: make([]*structpb.Value, 100_000)}
	for i := range list.Values {
		list.Values[i] = &structpb.Value{}
	}
	return &hubpb.Message{
		MessageId: id, ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("heavy")},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)}},
	}
}

// TestHeavyMessageOfABroker has a broker pass on a message that takes much memory: Cortex does not decode it, and stays connected, so that the message
// behind it is answered.
func TestHeavyMessageOfABroker(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	w.connect(b, "cortex")
	hub := w.dial()
	stream, err := hub.SubscribeToMessages(t.Context(), &hubpb.SubscribeToMessagesRequest{AgentId: "peer"})
	must(t, err)
	w.Until("it has subscribed", func() bool { return b.Has("messages", "peer") })
	routing := &hubpb.AgentEventMetadata{FromAgentId: "peer", ToAgentId: "cortex"}
	light := &hubpb.Message{MessageId: "2", ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("light")}}
	for _, m := range []*hubpb.Message{heavyMessage("1"), light} {
		if _, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: m, Routing: routing}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := stream.Recv()
	must(t, err)
	if got := e.GetMessage().GetContent(); len(got) != 1 || got[0].GetText() != "you said light" {
		t.Errorf("the first answer is %v", got)
	}
}

// TestHeavyTasks fills the book and a stream with tasks and events of few bytes that take much memory: that counts, and not their bytes.
func TestHeavyTasks(t *testing.T) {
	list := &structpb.ListValue{Values: make([]*structpb.Value, 10_000)} // 20 KB, which take more than 1 MiB
	for i := range list.Values {
		list.Values[i] = &structpb.Value{}
	}
	heavy := &hubpb.Message{MessageId: "m", TaskId: "t", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)}}}
	var b book
	_, err := b.message(heavy, time.Now())
	must(t, err)
	if n := b.of.Size(); n < 1<<20 {
		t.Errorf("a task of more than 1 MiB counts as %d bytes", n)
	}
	for n := 1; err == nil; n++ {
		if _, err = b.message(heavy, time.Now()); n > maxTaskHeavy>>20 {
			t.Fatalf("a task of %d such messages: %v", n+1, err)
		}
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one message too many: %v", err)
	}
	s := newStream(t.Context(), "slow", "", time.Now())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for s.put(gone, weighed(&hubpb.AgentEvent{Payload: &hubpb.AgentEvent_Message{Message: heavy}})) {
		if n++; n > maxQueueBytes>>20 {
			t.Fatal("more waits than is allowed")
		}
	}
}

// TestHeavyCards registers agents until their cards take too much memory together. One that is there may have a smaller card, and what is left has room again.
func TestHeavyCards(t *testing.T) {
	w := newWorld(t)
	w.times.registered = time.Hour // nobody leaves meanwhile
	w.serve()
	hub := w.dial()
	register := func(name string, n int) string {
		t.Helper()
		r, err := hub.RegisterAgent(t.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: name, Description: strings.Repeat("x", n)}})
		must(t, err)
		return r.Error
	}
	if why := register("first", 3<<20); why != "" { // it is cut
		t.Errorf("first: %s", why)
	}
	gs := w.hub.guests
	gs.mu.Lock()
	one := gs.by["first"].weight
	gs.held = one
	gs.mu.Unlock()
	if one > 4*maxAbout {
		t.Errorf("a card that is cut takes %d bytes", one)
	}
	if why := register("second", 3<<20); !strings.Contains(why, "too much memory") {
		t.Errorf("second: %q", why)
	}
	for _, n := range []int{3 << 20, 10} { // the same again, and less
		if why := register("first", n); why != "" {
			t.Errorf("first with %d bytes: %s", n, why)
		}
	}
	gs.mu.Lock()
	gs.held = 2*one - 1
	gs.mu.Unlock()
	if why := register("second", 3<<20); why != "" {
		t.Errorf("second: %s", why)
	}
	if why := register("first", 3<<20); !strings.Contains(why, "too much memory") {
		t.Errorf("first with more: %q", why)
	}
}
