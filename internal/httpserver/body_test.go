package httpserver_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// TestBodiesOfStrangers has forty clients send bodies slowly, which a handler reads, at a listener for eight connections: another client gets its answer as
// soon as if they had sent nothing.
func TestBodiesOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
			b, err := httpserver.ReadBody(w, r, 1000)
			if err != nil {
				http.Error(w, "too long", http.StatusRequestEntityTooLarge)
				return
			}
			io.WriteString(w, "hello "+string(b)) //nolint:errcheck // it may be closed
		}, &httpserver.Options{Connections: 8})
		gone := w.strangers(func(c net.Conn) { go trickle(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n") })
		for range 20 {
			began := time.Now()
			c := w.dial()
			if code, body := ask(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nada"); code != 200 || body != "hello ada" {
				t.Errorf("who asks gets %d %s", code, body)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the answer took %v", took)
			}
			c.Close()
		}
		stop()
		gone()
	})
}

// TestBodyIsBounded checks that ReadBody returns a body up to a size, and an error for more.
func TestBodyIsBounded(t *testing.T) {
	for n, want := range map[int]bool{0: true, 10: true, 11: false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("a", n)))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := httpserver.ReadBody(nil, r, 10); (err == nil) != want || want && len(b) != n {
			t.Errorf("%d bytes: %d, %v", n, len(b), err)
		}
	}
}
