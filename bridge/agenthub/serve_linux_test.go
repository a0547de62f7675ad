package agenthub

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
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
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) }))
	must(t, err)
	defer other.Close()
	for range 100 {
		if _, err := hubpb.NewAgentHubClient(other).GetTask(t.Context(), &hubpb.GetTaskRequest{TaskId: "none"}); status.Code(err) != codes.NotFound {
			t.Fatalf("a call of another machine: %v", err)
		}
	}
}
