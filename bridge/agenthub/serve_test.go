package agenthub

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// TestServeEnds checks that open subscriptions do not keep the hub from ending, and learn that it has.
func TestServeEnds(t *testing.T) {
	w := newWorld(t)
	w.serve()
	stream, err := w.dial().SubscribeToTasks(t.Context(), &hubpb.SubscribeToTasksRequest{AgentId: "a"})
	must(t, err)
	w.Until("it has subscribed", func() bool { return w.hub.exchange.knows("a") })
	w.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestMessageIsTooLarge checks that the hub takes no more than the real one does.
func TestMessageIsTooLarge(t *testing.T) {
	w := newWorld(t)
	w.serve()
	_, err := w.dial().PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: &hubpb.Message{MessageId: "m", Content: []*hubpb.Part{hubtest.Text(strings.Repeat("x", maxBody))}}})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error is %v", err)
	}
}

// TestPanic checks that a call that panics ends nothing but itself.
func TestPanic(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agentsOf := w.hub.at.Agents
	w.hub.at.Agents = nil
	stream, err := w.dial().SubscribeToAgentEvents(t.Context(), &hubpb.SubscribeToAgentEventsRequest{AgentId: "a"})
	must(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("the error is %v", err)
	}
	w.hub.at.Agents = agentsOf
	if _, err := w.dial().GetTask(context.Background(), &hubpb.GetTaskRequest{TaskId: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("afterwards: %v", err)
	}
}

// TestCallsWithoutMessages has one connection make calls whose messages never arrive, more than may be made at the same time, and again when one has ended:
// others make theirs.
func TestCallsWithoutMessages(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	defer holding.Wait()
	defer stop()
	begun := make(chan struct{}, 2*maxCalls)
	for range 2 * maxCalls {
		holding.Go(func() { callWithoutMessage(ctx, c, begun) })
	}
	for range 2 * maxCalls {
		<-begun
	}
	hub := w.dial()
	for range 100 {
		if _, err := hub.GetTask(t.Context(), &hubpb.GetTaskRequest{TaskId: "none"}); status.Code(err) != codes.NotFound {
			t.Fatalf("a call of another: %v", err)
		}
	}
}

// callWithoutMessage makes a call whose message never arrives, and again when it has ended, until ctx ends.
func callWithoutMessage(ctx context.Context, c *grpc.ClientConn, begun chan<- struct{}) {
	for first := true; ctx.Err() == nil; first = false {
		s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, hubpb.AgentHub_GetTask_FullMethodName)
		if first {
			begun <- struct{}{}
		}
		if err == nil {
			_ = s.RecvMsg(&hubpb.Task{})
		}
	}
}

// pending is a context that counts what waits for its end.
type pending struct {
	context.Context
	n atomic.Int32
}

func (p *pending) AfterFunc(func()) (stop func() bool) {
	p.n.Add(1)
	return func() bool { p.n.Add(-1); return true }
}

func (*pending) Done() <-chan struct{} { return make(chan struct{}) }

// TestRefusedCallsLeaveNothing refuses calls in the tap: gRPC does not end their contexts, so none may have a timer, or a context made of it.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	from := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}})
	arrive := admit(kit.NewPlaces(maxCalls, maxCalls))
	for i := range 2 * maxCalls {
		p := &pending{Context: from}
		_, err := arrive(p, &tap.Info{FullMethodName: hubpb.AgentHub_GetTask_FullMethodName})
		if refused := i >= maxCalls; (status.Code(err) == codes.ResourceExhausted) != refused || (p.n.Load() == 0) != refused {
			t.Fatalf("call %d: %v, and %d wait for its end", i, err, p.n.Load())
		}
	}
}
