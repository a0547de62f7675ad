package mcp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestTurns checks that a caller's large messages are decoded one after the other, which keeps nobody else and no small message waiting, and that a call which goes on
// lets the next be decoded.
func TestTurns(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	sent := make(chan struct{})
	onSent := func(*transport.Event) { close(sent) }
	s := New(Config{Client: &client.Client{Transport: bus, OnSent: onSent, Log: client.ReadLog(memstore.New(), "")}, Store: memstore.New(), Wait: time.Minute})
	door := httptest.NewServer(s.Handler(func(token string) (string, error) { return "user:" + token, nil }))
	defer door.Close()
	call := func(ctx context.Context, user, method, name, words string) <-chan string {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, door.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"`+name+
			`","arguments":{"text":"`+words+`"},"_meta":{"io.modelcontextprotocol/protocolVersion":"`+stateless+`","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + user,
			headerVersion: stateless, "Mcp-Method": method, "Mcp-Name": name,
		} {
			r.Header.Set(k, v)
		}
		over := make(chan string, 1)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				over <- err.Error()
				return
			}
			defer resp.Body.Close()
			said, _ := io.ReadAll(resp.Body)
			over <- string(said)
		}()
		return over
	}
	isAnswered := func(what string, over <-chan string) {
		t.Helper()
		select {
		case said := <-over:
			if !strings.Contains(said, `"tools"`) {
				t.Errorf("%s is answered: %s", what, said)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not answered", what)
		}
	}
	large := strings.Repeat("x", 100_000)
	list := func(user, words string) <-chan string { return call(t.Context(), user, "tools/list", "", words) }
	if !s.turns.Take(t.Context(), "user:ada", 1) {
		t.Fatal("nothing of hers is decoded, and there is no room")
	}
	waits := list("ada", large)
	isAnswered("a small message", list("ada", ""))
	isAnswered("somebody else's", list("bob", large))
	select {
	case said := <-waits:
		t.Errorf("a second large message is answered: %.200s", said)
	default:
	}
	s.turns.Give("user:ada", 1)
	isAnswered("the second one", waits)
	ctx, leave := context.WithCancel(t.Context())
	asks := call(ctx, "ada", methodCall, "ask", large)
	<-sent
	isAnswered("one while it waits", list("ada", large))
	leave()
	<-asks
}
