package cli

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
)

// notes is a log that a test reads while it is written.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // has a value when something was written
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.more <- struct{}{}:
	default:
	}
	return n.text.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// say waits until what was written contains want.
func (n *notes) say(t *testing.T, want string) {
	t.Helper()
	patience := time.After(time.Minute)
	for !strings.Contains(n.String(), want) {
		select {
		case <-n.more:
		case <-patience:
			t.Fatalf("it says:\n%s\nand not %q", n, want)
		}
	}
}

// occupied returns a data folder that another process holds, and a port that it listens on, until the end of the test.
func occupied(t *testing.T) (data string, other *datadir.Claim, port net.Listener) {
	t.Helper()
	data = t.TempDir()
	other, err := datadir.Take(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Release)
	if err := datadir.LeaveAddress(data, datadir.Address{URL: "nats://127.0.0.1:1", PID: 12}); err != nil {
		t.Fatal(err)
	}
	if port, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { port.Close() })
	return data, other, port
}

// TestServiceWaitsForOneThatWasKilled starts a service while the port and the data folder of another one are not free yet, as those of a large process
// that was killed.
func TestServiceWaitsForOneThatWasKilled(t *testing.T) {
	data, killed, port := occupied(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &notes{more: make(chan struct{}, 1)}
	ended := make(chan int)
	go func() {
		ended <- Run(ctx, []string{"serve", "--data", data, "--http", port.Addr().String(), "--agents", "none"}, strings.NewReader(""), io.Discard, log)
	}()
	log.say(t, "waiting for the port of --http")
	port.Close()
	log.say(t, "waiting for the data folder")
	killed.Release()
	log.say(t, "cortex is ready")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit status %d, want 0; log:\n%s", code, log)
	}
}

// TestServiceWaitsForAPortUntilItIsStopped stops a service that waits for the port of another one.
func TestServiceWaitsForAPortUntilItIsStopped(t *testing.T) {
	data, _, port := occupied(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &notes{more: make(chan struct{}, 1)}
	ended := make(chan int)
	go func() {
		ended <- Run(ctx, []string{"serve", "--data", data, "--http", port.Addr().String()}, strings.NewReader(""), io.Discard, log)
	}()
	log.say(t, "waiting for the port of --http")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit status %d, want 0; log:\n%s", code, log)
	}
}
