package mcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
)

// By the first transport a server says where it wants to be asked. Another host, which may be one of this network, is not asked.
func TestWantsToBeAskedElsewhere(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer other.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet { // it has no other transport
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/inside\n\n", other.URL)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	_, err := mcp.Open(t.Context(), &mcp.Server{Name: "test", URL: web.URL, SSE: true}, &mcp.Options{Dir: t.TempDir(), Version: "1"})
	if err == nil || !strings.Contains(err.Error(), "it wants to be asked at "+other.URL+"/inside, which is not its own host") {
		t.Errorf("Open = %v", err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}
