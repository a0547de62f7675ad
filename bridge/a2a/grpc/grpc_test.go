package grpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	sdka2a "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/net/http2"
	sdk "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/bridge/a2a/grpc"
	"github.com/cortex-orchestrator/cortex/client"
)

// patience bounds what is expected at once.
const patience = time.Minute

// serve serves on a free port with at most so many connections, and returns its address. Only the token "good" is somebody's.
func serve(t *testing.T, connections int) string {
	t.Helper()
	return serveAgents(t, connections, nil)
}

// serveAgents is serve, with agents that can be given work.
func serveAgents(t *testing.T, connections int, agents func(context.Context) ([]*sdka2a.AgentCard, error)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- grpc.Serve(ctx, l, a2a.New(a2a.Config{Client: &client.Client{}, Agents: agents}), &grpc.Options{Connections: connections, Identify: func(token string) (string, error) {
			if token != "good" {
				return "", errors.New("the token is nobody's")
			}
			return "user:ada", nil
		}})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) *sdk.ClientConn {
	t.Helper()
	c, err := sdk.NewClient(address, sdk.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// as returns a context for the calls of whoever has a token.
func as(t *testing.T, token string) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token, "a2a-version", "1.0")
}

// open begins a call, and sends no message.
func open(ctx context.Context, t *testing.T, c *sdk.ClientConn) sdk.ClientStream {
	t.Helper()
	s, err := c.NewStream(ctx, &sdk.StreamDesc{ClientStreams: true}, pb.A2AService_SendMessage_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// find asks for a task that does not exist.
func find(ctx context.Context, c *sdk.ClientConn) codes.Code {
	_, err := pb.NewA2AServiceClient(c).GetTask(ctx, &pb.GetTaskRequest{Id: "none"}, sdk.WaitForReady(true))
	return status.Code(err)
}

// TestStrangers checks that who has no token is told so before any message of theirs is read.
func TestStrangers(t *testing.T) {
	s := open(as(t, "bad"), t, dial(t, serve(t, 4)))
	if err := s.RecvMsg(&pb.SendMessageResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a message, and without a token: %v", err)
	}
}

// TestArriving checks that one user has a bounded number of messages on their way, whatever number of connections they come by, and that their places
// are free again when the messages do not come.
func TestArriving(t *testing.T) {
	address := serve(t, 8)
	ctx, stop := context.WithCancel(as(t, "good"))
	var c *sdk.ClientConn
	ended := make(chan error, 160)
	for i := range cap(ended) {
		if i%80 == 0 {
			c = dial(t, address)
		}
		s := open(ctx, t, c)
		go func() { ended <- s.RecvMsg(&pb.SendMessageResponse{}) }()
	}
	for range 32 { // more than the 128 that a user has
		if err := <-ended; status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("a call too many: %v", err)
		}
	}
	stop()
	for ctx := as(t, "good"); ; {
		if code := find(ctx, c); code == codes.NotFound {
			break
		} else if code != codes.ResourceExhausted || ctx.Err() != nil {
			t.Fatalf("a call after the others are gone: %v", code)
		}
	}
}

// TestSilence checks that connections on which nobody makes a call keep nobody out.
func TestSilence(t *testing.T) {
	address := serve(t, 4)
	for range 8 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // it may be closed already
		if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
			t.Fatal(err)
		}
		if err := http2.NewFramer(c, c).WriteSettings(); err != nil {
			t.Fatal(err)
		}
	}
	if code := find(as(t, "good"), dial(t, address)); code != codes.NotFound {
		t.Errorf("a call while the port is full: %v", code)
	}
}

// TestMetadata checks that a call with much metadata is refused.
func TestMetadata(t *testing.T) {
	c := dial(t, serve(t, 4))
	if code := find(metadata.AppendToOutgoingContext(as(t, "good"), "x-much", strings.Repeat("x", 32<<10)), c); code == codes.NotFound {
		t.Error("32 KiB of metadata are taken")
	}
	if code := find(as(t, "good"), c); code != codes.NotFound {
		t.Errorf("the next call: %v", code)
	}
}
