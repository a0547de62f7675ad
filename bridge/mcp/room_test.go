package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/mcp"
	"github.com/cortex-orchestrator/cortex/client"
)

// TestNoBatches sends messages in a list, as MCP had them before the oldest revision that is supported: one request would have thousands of answers.
func TestNoBatches(t *testing.T) {
	w := newWorld(t, false)
	h := httptest.NewServer(w.server(0).Handler(nil))
	defer h.Close()
	session := begin(t, h.URL)
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`
	for _, version := range []string{"", "2025-03-26", "2025-06-18", "2026-07-28"} {
		headers := []string{"Mcp-Session-Id", session}
		if version != "" {
			headers = append(headers, "Mcp-Protocol-Version", version)
		}
		if code, _, body := post(t, h.URL, " \n["+call+"]", headers...); code != http.StatusBadRequest || strings.Contains(body, "worker") {
			t.Errorf("version %q: a batch = %d %s", version, code, body)
		}
	}
	for _, bad := range []string{`"resources/read"`, `"resources/read","params":null`, `"tools/call"`, `"resources/read","params":[]`} {
		_, _, _ = post(t, h.URL, `{"jsonrpc":"2.0","id":8,"method":`+bad+`}`, "Mcp-Session-Id", session)
	}
	if _, _, body := post(t, h.URL, call, "Mcp-Session-Id", session); !strings.Contains(body, "worker") {
		t.Errorf("one message = %s", body)
	}
}

// TestBodiesThatAreNoMessages sends what cannot be read: it is refused, and the session it was sent in goes on.
func TestBodiesThatAreNoMessages(t *testing.T) {
	h := httptest.NewServer(newWorld(t, false).server(0).Handler(nil))
	defer h.Close()
	session := begin(t, h.URL)
	say := func(arguments string) (int, string) {
		t.Helper()
		code, _, body := post(t, h.URL, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_agents","arguments":`+arguments+`}}`, "Mcp-Session-Id", session)
		return code, body
	}
	for _, bad := range []string{`{"a":NaN}`, `{"a":` + strings.Repeat("[", 1100) + strings.Repeat("]", 1100) + `}`, `{"a":` + strings.Repeat("[", 20_000), `{`, `}}}`} {
		if code, body := say(bad); code != http.StatusBadRequest {
			t.Errorf("%.20s = %d %.200s", bad, code, body)
		}
		if code, body := say("{}"); code != http.StatusOK || !strings.Contains(body, "worker") {
			t.Errorf("behind %.20s: %d %.200s", bad, code, body)
		}
	}
}

// TestLargeAnswersHaveRoom has one person ask for many lists at once, also by requests that they give up: few are made at the same time.
func TestLargeAnswersHaveRoom(t *testing.T) {
	w := newWorld(t, false)
	var known, running, most atomic.Int64
	gate := make(chan struct{})
	d := mcp.New(mcp.Config{
		Client: &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, "")}, Store: w.store, Version: "test",
		Agents: func(context.Context) ([]*a2a.AgentCard, error) {
			for n := running.Add(1); ; {
				if is := most.Load(); n <= is || most.CompareAndSwap(is, n) {
					break
				}
			}
			defer running.Add(-1)
			<-gate
			return w.cards, nil
		},
	})
	h := httptest.NewServer(d.Handler(func(string) (string, error) {
		known.Add(1)
		return "user:ada", nil
	}))
	defer h.Close()
	_, head, _ := post(t, h.URL, initialize, "Authorization", "Bearer x")
	session := head.Get("Mcp-Session-Id")
	var calls sync.WaitGroup
	ask := func(ctx context.Context, id int, what string) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s}`, id, what)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		for name, value := range map[string]string{"Authorization": "Bearer x", "Mcp-Session-Id": session, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(name, value)
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
		}
	}
	const list, read = `"tools/call","params":{"name":"list_agents","arguments":{}}`, `"resources/read","params":{"uri":"cortex://agents"}`
	gone, leave := context.WithCancel(t.Context())
	for i := range 8 {
		calls.Go(func() { ask(gone, 100+i, list) })
	}
	w.until("lists are made", func() bool { return running.Load() == 8 })
	leave()
	calls.Wait()
	was := known.Load()
	for i := range 40 {
		calls.Go(func() { ask(t.Context(), 200+i, []string{list, read}[i%2]) })
	}
	w.until("all have asked", func() bool { return known.Load() >= was+40 })
	close(gate)
	calls.Wait()
	w.until("all have ended", func() bool { return running.Load() == 0 })
	if n := most.Load(); n != 8 {
		t.Errorf("%d lists were made at the same time, want 8", n)
	}
}
