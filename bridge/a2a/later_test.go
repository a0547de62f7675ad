package a2a_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestTooMuch sends messages that Cortex has no room for: in each binding a client learns that it is to come again later, and that nothing has failed.
func TestTooMuch(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.doorWith(func(c *a2a.Config) {
		c.Client.Admit = func(string, int) error { return transport.ErrFull }
	}), nil)
	const body = `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"one"}]}}`
	for _, path := range []string{"/message:send", "/message:stream"} {
		code, h, said := do(t, http.MethodPost, url+path, body)
		if code != http.StatusTooManyRequests || h.Get("Content-Type") != "application/json" || !strings.Contains(said, `"code":429`) || !strings.Contains(said, `"status":"RESOURCE_EXHAUSTED"`) ||
			!strings.Contains(said, "try again later") {
			t.Errorf("%s: %d %s, want 429 RESOURCE_EXHAUSTED", path, code, said)
		}
	}
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		if _, code, reason := rpc(t, url, method, body); code != -32000 || reason != "SERVER_ERROR" {
			t.Errorf("%s: %d %s, want -32000 SERVER_ERROR", method, code, reason)
		}
	}

	conn, err := grpc.NewClient(w.rpc[url], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close() //nolint:errcheck // nothing is lost
	c := a2apb.NewA2AServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0")
	message := &a2apb.SendMessageRequest{Message: &a2apb.Message{
		MessageId: "1", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "one"}}},
	}}
	if _, err := c.SendMessage(ctx, message); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("SendMessage with gRPC: %v, want ResourceExhausted", err)
	}
	stream, err := c.SendStreamingMessage(ctx, message)
	must(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("SendStreamingMessage with gRPC: %v, want ResourceExhausted", err)
	}

	for _, binding := range bindings { // the SDK's client makes an ErrInternalError of the code with gRPC
		_, err := w.join(binding, url).SendMessage(t.Context(), said("two"))
		if err == nil || !strings.Contains(err.Error(), "try again later") || binding != sdk.TransportProtocolGRPC && !errors.Is(err, sdk.ErrServerError) {
			t.Errorf("%s: %v, want ErrServerError with the reason", binding, err)
		}
	}
}

// noShelf is a bus without room for files.
type noShelf struct{ *memory.Bus }

func (noShelf) PutChunk(context.Context, transport.Object, int, []byte) error {
	return fmt.Errorf("%w: delete conversations", transport.ErrFilesFull)
}

// TestNoRoomForFiles sends a message with a large file that there is no room for: its sender is told so, and not that Cortex is away.
func TestNoRoomForFiles(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.doorWith(func(c *a2a.Config) { c.Client.Transport = noShelf{w.bus} }), nil)
	file := base64.StdEncoding.EncodeToString(make([]byte, 2*transport.MaxInlineFile))
	body := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"one"},{"raw":"` + file + `","filename":"a.bin"}]}}`
	for _, path := range []string{"/message:send", "/message:stream"} {
		if code, _, said := do(t, http.MethodPost, url+path, body); code != http.StatusTooManyRequests || !strings.Contains(said, "there is no room for more files: delete conversations") {
			t.Errorf("%s: %d %s, want 429 with the reason", path, code, said)
		}
	}
}
