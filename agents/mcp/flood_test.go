package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
)

// asFlood has the test binary be a server whose tools change whenever they are listed, which says how often that was.
const asFlood = "MCP_TEST_FLOOD"

// manyValues is a JSON text of some megabytes that takes fifty times as much when it is decoded.
func manyValues() string { return `{"a":[` + strings.Repeat(`{"":0},`, 110_000) + `0]}` }

// floodTools serves the requests on standard input.
func floodTools() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	lists := 0
	for in.Scan() {
		var q struct {
			ID     any
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(in.Bytes(), &q) != nil {
			continue
		}
		said := ""
		switch q.Method {
		case "initialize":
			said = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"}}`
		case "tools/list":
			lists++
			said = fmt.Sprintf(`{"tools":[{"name":"lists","description":"%d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},`+
				`{"name":"heavy","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"wordy","description":"%s","inputSchema":{"type":"object"}}]}`,
				lists, strings.Repeat("d", 100<<10))
		case "tools/call":
			said = fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, lists)
			if q.Params.Name == "heavy" {
				said = `{"content":[],"structuredContent":` + manyValues() + `}`
			}
		case "ping":
			said = "{}"
		}
		switch {
		case q.ID == nil:
		case said == "":
			fmt.Printf(`{"jsonrpc":"2.0","id":%v,"error":{"code":-32601,"message":"unknown"}}`+"\n", q.ID)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%v,"result":%s}`+"\n", q.ID, said)
		}
		if q.Method == "tools/list" {
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
	}
	return in.Err()
}

// safe is a buffer for the log of several goroutines.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A server whose tools change again and again is asked for them now and then, and the log says once of each that it is not what it was.
func TestToolsChangeAgainAndAgain(t *testing.T) {
	log := &safe{}
	a, err := mcp.Open(t.Context(), program(t, asFlood+"=1"), &mcp.Options{Dir: t.TempDir(), Version: "1", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	a.SetListPause(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := ""
	for n := 0; n < 200 || got == "1"; n++ { // there is time for many lists
		if got, err = do(t, a, task(fmt.Sprint(n), "m", "lists", "", map[string]any{})); err != nil {
			t.Fatal(err)
		}
	}
	if got != "2" {
		t.Errorf("the tools were listed %s times, want 2", got)
	}
	<-a.Changes()
	if n := strings.Count(log.String(), "tool is not what it was"); n != 1 {
		t.Errorf("the log says %d times that the tool has changed:\n%s", n, log)
	}
	if _, err := do(t, a, task("wordy", "m", "wordy", "", map[string]any{})); err == nil || !strings.Contains(log.String(), "it says 102400 bytes of itself") {
		t.Errorf("a tool that says too much: %v", err)
	}
}

// A result of few bytes and much memory is not decoded. The session goes on, since it has the calls of others as well.
func TestHeavyResult(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	servers := map[string]*mcp.Server{"a program": program(t, asFlood+"=1", "PID="+pid)}
	for _, kind := range []string{"application/json", "text/event-stream"} {
		s := newServer()
		h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(b))
			var q struct{ ID any }
			if !bytes.Contains(b, []byte(`"text":"heavy"`)) || json.Unmarshal(b, &q) != nil {
				h.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", kind)
			said := fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"content":[],"structuredContent":%s}}`, q.ID, manyValues())
			if kind == "text/event-stream" {
				said = "data: " + said + "\n\n"
			}
			io.WriteString(w, said)
		}))
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
		})
		servers[kind] = at(t, web.URL)
	}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			log := &safe{}
			a := open(t, s, t.TempDir(), slog.New(slog.NewTextHandler(log, nil)))
			heavy, light, want := task("1", "m", "upper", "heavy", nil), task("2", "m", "upper", "back", nil), "BACK"
			var runs []byte
			if name == "a program" {
				heavy, light, want = task("1", "m", "heavy", "", map[string]any{}), task("2", "m", "lists", "", map[string]any{}), ""
				runs, _ = os.ReadFile(pid)
			}
			if got, err := do(t, a, heavy); err == nil || !strings.Contains(err.Error(), "too large to be read") {
				t.Errorf("got %.100q, %v", got, err)
			}
			if got, err := do(t, a, light); err != nil || want != "" && got != want {
				t.Errorf("behind it: %q, %v", got, err)
			}
			if text := log.String(); strings.Contains(text, "server was lost") {
				t.Errorf("the log says:\n%s", text)
			}
			if now, err := os.ReadFile(pid); name == "a program" && (err != nil || !bytes.Equal(now, runs)) {
				t.Errorf("it was process %s, and is %s, %v", runs, now, err)
			}
		})
	}
}
