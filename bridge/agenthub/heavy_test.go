package agenthub

import (
	"strings"
	"testing"

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
	list := &structpb.ListValue{Values: make([]*structpb.Value, 100_000)}
	for i := range list.Values {
		list.Values[i] = &structpb.Value{}
	}
	routing := &hubpb.AgentEventMetadata{FromAgentId: "a", ToAgentId: "b"}
	heavy := &hubpb.Message{
		MessageId: "1", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("x")},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)}},
	}
	if _, err := w.dial().PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: heavy, Routing: routing}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "too many values") {
		t.Errorf("a message of many values: %v", err)
	}
	long := &hubpb.Message{MessageId: "2", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text(strings.Repeat("x", 3<<20))}}
	if _, err := w.dial().PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: long, Routing: routing}); err != nil {
		t.Errorf("a long message: %v", err)
	}
}
