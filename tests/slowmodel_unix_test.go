//go:build unix

package tests

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// slowFiles is the service's limit of open files.
const slowFiles = 512

// TestSlowModel sends a service more requests than it may have open files, for a model that does not answer: connections to models must not prevent
// the store from opening its files, which would end the service, even after a restart.
func TestSlowModel(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open, most := map[net.Conn]bool{}, 0
	model := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	model.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			open[c] = true
		} else if state == http.StateClosed {
			delete(open, c)
		}
		most = max(most, len(open))
	}
	model.Start()
	defer model.Close()
	config := filepath.Join(t.TempDir(), "cortex.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "llms:\n  slow: {provider: vllm, base_url: %s/v1, model: m, timeout: 2m}\n", model.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveLimited(t, false, slowFiles, "--config", config, "--llm", "slow")
	s.isReady()
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: "nats://" + s.address(`url=nats://([0-9.:]+)`)})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	const asked = slowFiles + 100
	for i := range asked {
		id := fmt.Sprint("c", i)
		err := bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
			ID: id, Time: time.Now(), From: "user", ContextID: id,
			Payload: &a2a.Message{ID: id, ContextID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("Hello?")}},
		})
		if err != nil {
			t.Fatalf("message %d: %v; the log:\n%s", i, err, s.log)
		}
	}
	waits := regexp.MustCompile(`(?m)^(\d+) turns wait for a decision .* while (\d+) of at most 64 are made; most are of user`)
	url := "http://" + s.address(`http://([0-9.:]+)/readyz`) + "/readyz"
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	body := []byte(nil)
	for end := time.Now().Add(patience); ; <-poll.C {
		r, err := http.Get(url)
		if err != nil || time.Now().After(end) {
			t.Fatalf("%v, /readyz %s, want it to say that all wait but 48; the log:\n%s", err, body, s.log)
		}
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
		if m := waits.FindSubmatch(body); m != nil && string(m[1]) == fmt.Sprint(asked-48) && string(m[2]) == "48" {
			break
		}
	}
	mu.Lock()
	if most > 64 {
		t.Errorf("%d connections to the model, want at most 64", most)
	}
	mu.Unlock()
	if n := strings.Count(s.log.String(), "turns wait for a decision"); n == 0 {
		t.Errorf("the log does not say that turns wait:\n%s", s.log)
	}
	model.CloseClientConnections()
	s.stop()
}
