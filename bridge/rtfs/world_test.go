package rtfs

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/app/role/roletest"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// world is a Cortex with a registry. It decides nothing by itself: all that it is asked names an agent.
type world struct {
	*roletest.World
	o     options
	times times

	b       *bridge
	address string
	stop    func()
	ahead   atomic.Int64 // of the time, by which the registry's clock is
}

// pass has the registry's clock go on by d.
func (w *world) pass(d time.Duration) {
	w.ahead.Add(int64(d))
	w.b.leases.wake()
}

// undecided is a model that is not asked.
type undecided struct{}

func (undecided) Decide(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) {
	return &llm.Decision{Kind: llm.KindRespond, Say: "nobody should ask this"}, nil
}

func newWorld(t testing.TB) *world {
	w := &world{World: roletest.New(t, undecided{}), times: usual, o: options{address: "127.0.0.1:0"}}
	w.times.again = 10 * time.Millisecond
	w.Client.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	w.Client.OnSend = func(e *transport.Event) { e.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }
	return w
}

// serve starts the registry, again after stop.
func (w *world) serve() {
	w.T.Helper()
	at := w.Site()
	b, err := newBridge(at, &w.o, w.times)
	must(w.T, err)
	w.b = b
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- b.run(ctx, func(ctx context.Context) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			ready <- l.Addr().String()
			return at.Serve(ctx, l, b.handler())
		})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.T.Cleanup(w.stop)
	select {
	case w.address = <-ready:
	case <-time.After(time.Minute):
		w.T.Fatal("the registry does not start")
	}
}

// plainAgent is an agent that is called by HTTP, and keeps the calls.
type plainAgent struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	heads []http.Header
	do    func(w http.ResponseWriter, n int, r *http.Request)
}

func newAgent(t testing.TB, do func(w http.ResponseWriter, n int, r *http.Request)) *plainAgent {
	a := &plainAgent{do: do}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.calls, a.heads = append(a.calls, string(body)), append(a.heads, r.Header)
		n := len(a.calls)
		a.mu.Unlock()
		a.do(w, n, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// says answers a call.
func says(answer string) func(http.ResponseWriter, int, *http.Request) {
	return func(w http.ResponseWriter, _ int, _ *http.Request) { _, _ = io.WriteString(w, answer) }
}

func (a *plainAgent) called() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
