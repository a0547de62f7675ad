package openai_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// TestConnectionIsKept holds that the next call goes over the connection of the last, where the server takes a moment to end
// its response; and that a server which never ends it is not waited for.
func TestConnectionIsKept(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration // behind the last word
		want  int32
	}{{"a moment", 5 * time.Millisecond, 1}, {"for ever", time.Hour, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var connections atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, stream(delta(`{"content":"Hello."}`), end("stop")))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(tt.pause):
				}
			}))
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					connections.Add(1)
				}
			}
			server.Start()
			defer server.Close()
			c := newClient(t, openai.Config{BaseURL: server.URL + "/v1"})
			for range 3 {
				if res := generate(t, c, hi()); res.err != nil || res.text != "Hello." {
					t.Fatalf("Generate = %+v", res)
				}
			}
			if n := connections.Load(); n != tt.want {
				t.Errorf("%d connections for 3 calls, want %d", n, tt.want)
			}
		})
	}
}

// TestNestedError holds that of a large error in a stream no more than the beginning is looked at: lists in lists of texts
// would be joined once for each level.
func TestNestedError(t *testing.T) {
	const depth = 300
	frame := `{"error":` + strings.Repeat(`{"message":["b",`, depth) + `"` + strings.Repeat("a", 1<<20) + `"` + strings.Repeat(`]}`, depth) + `}`
	e := failure(t, generate(t, newClient(t, openai.Config{BaseURL: raw(t, 200, nil, stream(frame))}), hi()), llm.ErrUnavailable)
	if len(e.Message) > 300 {
		t.Errorf("the error says %d bytes: %.80s", len(e.Message), e.Message)
	}
}
