package openai_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// TestConnectionsAreBounded makes more concurrent calls than connections are permitted: the others wait, and all are answered.
func TestConnectionsAreBounded(t *testing.T) {
	const most, calls = 3, 12
	var connections atomic.Int32
	came, answer := make(chan struct{}, calls), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came <- struct{}{}
		<-answer
		_, _ = io.WriteString(w, stream(delta(`{"content":"Hello."}`), end("stop")))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c := newClient(t, openai.Config{BaseURL: server.URL + "/v1", MaxConns: most})
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if res := generate(t, c, hi()); res.err != nil || res.text != "Hello." {
				t.Errorf("Generate = %+v", res)
			}
		})
	}
	for range most {
		<-came
	}
	close(answer)
	all.Wait()
	if n := connections.Load(); n > most {
		t.Errorf("%d connections for %d calls at a time, want at most %d", n, calls, most)
	}
}
