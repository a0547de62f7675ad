package a2a_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
)

// heavyPeer answers each message with a task of few bytes that takes much memory; "large", with one of many bytes.
type heavyPeer struct {
	pb.UnimplementedA2AServiceServer
}

func (heavyPeer) SendMessage(_ context.Context, req *pb.SendMessageRequest) (*pb.SendMessageResponse, error) {
	if req.GetMessage().GetParts()[0].GetText() == "large" {
		part := &pb.Part{Content: &pb.Part_Text{Text: strings.Repeat("x", 4<<20)}}
		return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Message{Message: &pb.Message{MessageId: "m", Role: pb.Role_ROLE_AGENT, Parts: []*pb.Part{part}}}}, nil
	}
	list := &structpb.ListValue{Values: make([]*structpb.Value, 600_000)}
	for i := range list.Values {
		list.Values[i] = &structpb.Value{}
	}
	part := &pb.Part{Content: &pb.Part_Data{Data: structpb.NewListValue(list)}}
	task := &pb.Task{Id: "t", ContextId: "c", Status: &pb.TaskStatus{State: pb.TaskState_TASK_STATE_COMPLETED}, Artifacts: []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{part}}}}
	return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Task{Task: task}}, nil
}

// TestHeavyAnswer gives a task to a peer with gRPC whose answer takes far more memory than bytes, or has more of these than clients of gRPC take: it is
// refused before it is decoded, and the task says why.
func TestHeavyAnswer(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterA2AServiceServer(s, heavyPeer{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	card, err := json.Marshal(map[string]any{
		"name": "heavy", "description": "A", "version": "1", "capabilities": map[string]any{}, "defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"skills":              []any{map[string]any{"id": "s", "name": "S", "description": "D", "tags": []string{}}},
		"supportedInterfaces": []any{map[string]any{"url": l.Addr().String(), "protocolBinding": "GRPC", "protocolVersion": "1.0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(card) }))
	defer web.Close()
	a := open(t, t.TempDir(), &peers.Peer{URL: web.URL})
	for text, want := range map[string]string{"hello": "it says too much: the answer has too many values", "large": "received message larger than max"} {
		if got := give(t.Context(), a, given{id: "of " + text, message: "m" + text, text: text}); got.state != a2a.TaskStateFailed || !strings.Contains(got.text, want) {
			t.Errorf("%s: the task is %s: %.200q", text, got.state, got.text)
		}
	}
}
