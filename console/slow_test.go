package console_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// unread is a connection to a browser that does not read: the first write of an event lasts until goOn is closed, and then returns err.
type unread struct {
	t       *testing.T
	stuck   chan struct{} // closed when the first event is being written
	goOn    chan struct{}
	err     error
	head    http.Header
	mu      sync.Mutex
	until   time.Time // of the write
	written bytes.Buffer
}

func (u *unread) Header() http.Header { return u.head }
func (u *unread) WriteHeader(int)     {}
func (u *unread) Flush()              {}

func (u *unread) SetWriteDeadline(t time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = t
	return nil
}

func (u *unread) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if left := time.Until(u.until); left <= 0 || left > 10*time.Second {
		u.t.Errorf("a write may last for %v, want at most 10 s", left)
	}
	u.until = time.Time{} // of the next write
	u.written.Write(b)
	if !bytes.HasPrefix(b, []byte("event: ")) || u.goOn == nil {
		return len(b), nil
	}
	close(u.stuck)
	<-u.goOn
	u.goOn = nil
	if u.err != nil {
		return 0, u.err
	}
	return len(b), nil
}

// hearing is a bus that counts what its subscribers have handled.
type hearing struct {
	*memory.Bus
	events atomic.Int64
}

func (h *hearing) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	s, err := h.Bus.Subscribe(ctx, t, o)
	return heard{s, h}, err
}

// heard is a subscription of a bus that counts.
type heard struct {
	transport.Subscription
	bus *hearing
}

func (s heard) Serve(ctx context.Context, handle transport.Handler) error {
	return s.Subscription.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
		defer s.bus.events.Add(1)
		return handle(ctx, e)
	})
}

// TestSlowBrowser has browsers that do not read what they are sent: others get everything meanwhile, nothing piles up for them, and a write to them ends
// with a deadline.
func TestSlowBrowser(t *testing.T) {
	var bus *hearing
	w := newWorld(t, func(c *console.Config) {
		own := *c.Client
		bus = &hearing{Bus: own.Transport.(*memory.Bus)}
		own.Transport, c.Client = bus, &own
	})
	b := w.browser()
	w.ask("x", "hello")
	for name, fails := range map[string]error{"reads later": nil, "never reads": os.ErrDeadlineExceeded} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r := httptest.NewRequestWithContext(ctx, "GET", w.url+"c/x/events", nil)
		r.RemoteAddr = "127.0.0.1:1"
		for _, c := range b.Jar.Cookies(r.URL) {
			r.AddCookie(c)
		}
		u := &unread{t: t, stuck: make(chan struct{}), goOn: make(chan struct{}), err: fails, head: make(http.Header)}
		goOn, ended := u.goOn, make(chan struct{})
		go func() {
			defer close(ended)
			w.pages.ServeHTTP(u, r)
		}()
		<-u.stuck
		turn := w.ask("x", "say "+name)
		if code, text := status(t, b, "GET", w.url+"c/x", ""); code != 200 || !strings.Contains(text, "done: say "+name) {
			t.Errorf("%s: another browser gets %d", name, code)
		}
		began := bus.events.Load()
		for i := range 3000 { // more than are kept for a browser; the bus keeps fewer for a subscriber that is slow
			if i%500 == 0 {
				until(t, "what was said has reached the console", func() bool { return bus.events.Load() >= began+int64(i) })
			}
			must(t, w.bus.Publish(ctx, transport.Live("", "x"), &transport.Event{
				ID: fmt.Sprint(name[:4], i), Time: time.Now(), From: transport.Cortex, ContextID: "x", Payload: &transport.Delta{Turn: turn, Attempt: "a", Text: "x"},
			}))
		}
		until(t, "all of it has reached the console", func() bool { return bus.events.Load() >= began+3000 })
		close(goOn)
		<-ended
		cancel()
		if !strings.Contains(u.written.String(), "event: turn") || strings.Contains(u.written.String(), "event: resync") != (fails == nil) {
			t.Errorf("%s: it is sent\n%.2000s", name, &u.written)
		}
	}
}

// deadlined is a connection that keeps the deadline of its last write.
type deadlined struct {
	*httptest.ResponseRecorder
	until, of time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.until = t
	return nil
}

func (d *deadlined) Write(b []byte) (int, error) {
	d.of = d.until
	return d.ResponseRecorder.Write(b)
}

// TestPageHasTime checks that a page has time to be written from when it is made, however long that took.
func TestPageHasTime(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	r := httptest.NewRequestWithContext(t.Context(), "GET", w.url+"tasks", nil)
	r.RemoteAddr = "127.0.0.1:1"
	for _, c := range b.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	r.Header.Set("Accept", "text/html")
	to := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	w.pages.ServeHTTP(to, r)
	if to.Code != 200 || to.of.IsZero() {
		t.Errorf("the page answers %d, and its write has the deadline %v", to.Code, to.of)
	}
}
