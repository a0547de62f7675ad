package rtfs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// TestMachineWithManyCalls has one machine take all connections with calls that wait, and connect again and again: the call of another machine, which has
// waited longest, has its answer. On Linux this machine has more than one address.
func TestMachineWithManyCalls(t *testing.T) {
	w := newWorld(t)
	var working atomic.Int64
	gate := make(chan struct{})
	w.Join(ownCard("echo"), func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
		working.Add(1)
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return echo(ctx, task)
	})
	w.serve()
	var looks atomic.Int64
	w.b.pace.Now = func() time.Time { return time.Unix(looks.Add(1), 0) }
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	call := func(c net.Conn, name string) {
		body := fmt.Sprintf(`{"capability_id":"say","input":"hello","metadata":{"client":%q}}`, name)
		_, _ = fmt.Fprintf(c, "POST /agents/echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body) // it may be closed
	}
	other, err := dialer.DialContext(t.Context(), "tcp", w.address)
	must(t, err)
	defer other.Close()
	call(other, "other")
	w.Until("the agent is at work", func() bool { return working.Load() == 1 })
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	defer calling.Wait()
	defer stop()
	var come atomic.Int64
	for n := range openfiles.HTTP(1) + 16 {
		calling.Go(func() {
			for ctx.Err() == nil {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", w.address)
				if err != nil {
					continue
				}
				over := context.AfterFunc(ctx, func() { _ = c.Close() })
				call(c, fmt.Sprint("name", n))
				come.Add(1)
				_, _ = io.Copy(io.Discard, c) // until it is closed
				over()
				_ = c.Close()
			}
		})
	}
	w.Until("they have come again", func() bool { return come.Load() > 4*int64(openfiles.HTTP(1)) })
	close(gate)
	must(t, other.SetReadDeadline(time.Now().Add(time.Minute)))
	r, err := http.ReadResponse(bufio.NewReader(other), nil)
	must(t, err)
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(b), "again: hello") {
		t.Errorf("the other machine gets %s, %v", b, err)
	}
}
