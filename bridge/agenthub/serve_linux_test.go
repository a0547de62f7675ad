package agenthub

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// TestMachineWithManyConnections has one machine make calls whose messages never arrive, each by a connection of its own, more than may be made at the same
// time, and again when one has ended: another machine makes its calls. On Linux this machine has more than one address.
func TestMachineWithManyConnections(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ctx, stop := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	defer holding.Wait()
	defer stop()
	begun := make(chan struct{}, maxCalls+16)
	for range cap(begun) {
		holding.Go(func() {
			c, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			callWithoutMessage(ctx, c, begun)
		})
	}
	for range cap(begun) {
		<-begun
	}
	other := w.dialElsewhere()
	for range 100 {
		if _, err := other.GetTask(t.Context(), &hubpb.GetTaskRequest{TaskId: "none"}); status.Code(err) != codes.NotFound {
			t.Fatalf("a call of another machine: %v", err)
		}
	}
}

// dialElsewhere connects a program of another machine.
func (w *world) dialElsewhere() hubpb.AgentHubClient {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) }))
	must(w.T, err)
	w.T.Cleanup(func() { _ = c.Close() })
	return hubpb.NewAgentHubClient(c)
}

// TestMachineWithManySubscriptions has one machine take all connections, each with a subscription, and then connect again and again: the subscription of
// another machine, which came when all that stay were taken, does not end.
func TestMachineWithManySubscriptions(t *testing.T) {
	w := newWorld(t)
	w.serve()
	most := openfiles.HTTP(w.hub.at.Listeners)
	subscribe := func(hub hubpb.AgentHubClient, of string) (ended chan error) {
		t.Helper()
		to, err := hub.SubscribeToTasks(t.Context(), &hubpb.SubscribeToTasksRequest{AgentId: of}, grpc.WaitForReady(true))
		must(t, err)
		w.Until(of+" has subscribed", func() bool { return w.hub.exchange.knows(of) })
		ended = make(chan error, 1)
		go func() {
			_, err := to.Recv()
			ended <- err
		}()
		return ended
	}
	for i := range most {
		subscribe(w.dial(), fmt.Sprint("many", i))
	}
	ended := subscribe(w.dialElsewhere(), "other")
	for i := range most / 2 {
		subscribe(w.dial(), fmt.Sprint("again", i))
	}
	select {
	case err := <-ended:
		t.Errorf("the subscription of another machine has ended: %v", err)
	default:
	}
}
