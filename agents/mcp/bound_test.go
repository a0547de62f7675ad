package mcp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/transport"
)

// with is a server at an address that has these tools.
func with(t *testing.T, tools ...*sdk.Tool) *mcp.Server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, &sdk.ServerOptions{PageSize: 50})
	for _, tool := range tools {
		s.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return text("did " + r.Params.Name), nil
		})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	of, err := mcp.FromCommand("many", nil, web.URL, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// A server may have any number of tools, with any descriptions: the card has what one may have, and is one.
func TestManyTools(t *testing.T) {
	var tools []*sdk.Tool
	for i := range 3000 {
		tools = append(tools, &sdk.Tool{
			Name: fmt.Sprintf("tool-%04d", i), Description: strings.Repeat("d", 10<<10),
			InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string","description":"` + strings.Repeat("s", 2<<10) + `"}}}`),
		})
	}
	a := open(t, with(t, tools...), t.TempDir(), nil)
	card := a.Card()
	if err := transport.ValidateCard(card); err != nil || len(card.Skills) == 0 || len(card.Skills) > transport.MaxSkills {
		t.Errorf("a card of %d skills: %v", len(card.Skills), err)
	}
	if got, err := do(t, a, task("1", "m", card.Skills[0].ID, "", map[string]any{})); err != nil || got != "did tool-0000" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Nothing of a schema is fetched, and one that cannot be checked here is left to the server.
func TestSchemas(t *testing.T) {
	fetched := make(chan string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fetched <- r.URL.Path }))
	defer web.Close()
	schema := func(s string) json.RawMessage { return json.RawMessage(s) }
	a := open(t, with(t,
		&sdk.Tool{Name: "remote", InputSchema: schema(`{"type":"object","properties":{"x":{"$ref":"` + web.URL + `/x.json"}}}`)},
		&sdk.Tool{Name: "cycle", InputSchema: schema(`{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}}`)},
		&sdk.Tool{Name: "javascript", InputSchema: schema(`{"type":"object","properties":{"x":{"type":"string","pattern":"^(?!a).*$"}}}`)},
		&sdk.Tool{Name: "large", InputSchema: schema(`{"type":"object","description":"` + strings.Repeat("s", 40<<10) + `"}`)},
		&sdk.Tool{Name: "too-large", InputSchema: schema(`{"type":"object","description":"` + strings.Repeat("s", 80<<10) + `"}`)},
	), t.TempDir(), nil)
	abilities := agentcard.SpecOf(a.Card()).Abilities
	for name, inCard := range map[string]bool{"remote": true, "cycle": true, "javascript": true, "large": false} {
		if got := abilities[name].InputSchema != nil; got != inCard {
			t.Errorf("the schema of %s is in the card: %v, want %v", name, got, inCard)
		}
		input := map[string]any{"x": map[string]any{"n": map[string]any{"n": map[string]any{}}}}
		if got, err := do(t, a, task(name, "m", name, "", input)); err != nil || got != "did "+name {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := do(t, a, task("5", "m", "too-large", "", map[string]any{})); err == nil || !strings.Contains(err.Error(), "there is no tool") {
		t.Errorf("a tool with too large a schema: %v", err)
	}
	select {
	case path := <-fetched:
		t.Errorf("%s was fetched", path)
	default:
	}
}

// A result that is larger than a message may be fails its call only.
func TestHugeResult(t *testing.T) {
	a := open(t, program(t), t.TempDir(), nil)
	if got, err := do(t, a, task("1", "m", "huge", "", map[string]any{})); err == nil || !strings.Contains(err.Error(), "too large to be read") {
		t.Errorf("got %.100q, %v", got, err)
	}
	if got, err := do(t, a, task("2", "m", "flood", "", map[string]any{})); err != nil || got != "over" {
		t.Errorf("behind it, and in a flood of progress: %q, %v", got, err)
	}
}

// A server that refuses a call until the user was somewhere is asked again when that is done.
func TestVisit(t *testing.T) {
	for words, want := range map[string]string{"done": "paid", "decline": "error: the server wants something to be done elsewhere first, and that was declined"} {
		t.Run(words, func(t *testing.T) {
			a := open(t, program(t, "REVISION=2025-11-25"), t.TempDir(), nil)
			got, err := do(t, a, task("1", "m1", "paid", "", map[string]any{}))
			if err != nil || !strings.HasPrefix(got, "asks: Please pay (the MCP server test) wants you to open https://pay.example/1 ") {
				t.Fatalf("got %q, %v", got, err)
			}
			if got, err = do(t, a, reply("1", "m2", words)); err != nil {
				got = "error: " + err.Error()
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A server at an address that goes away in the middle of a call leaves its outcome unknown, and is found again when it is back.
func TestAddressGoesAway(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	t.Setenv("NOTES", notes)
	s := newServer()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	of, err := mcp.FromCommand("web", nil, web.URL, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, of, t.TempDir(), nil)
	t.Setenv("DAWDLE", "2s")
	go func() {
		until(t, "the call is there", func() bool { b, _ := os.ReadFile(notes); return len(b) > 0 })
		web.CloseClientConnections()
	}()
	once := task("1", "m", "note", "line", nil)
	for range 2 {
		if got, err := do(t, a, once); err == nil || !strings.Contains(err.Error(), "the outcome is unknown") {
			t.Errorf("got %q, %v", got, err)
		}
		once.Delivery++
	}
	if got, err := do(t, a, task("2", "m", "upper", "back", nil)); err != nil || got != "BACK" {
		t.Errorf("behind it: %q, %v", got, err)
	}
	if b, _ := os.ReadFile(notes); string(b) != "line\n" {
		t.Errorf("notes %q", b)
	}
}

// A session in which a call has failed is replaced while another call goes on in it, however often that happens.
func TestCallGoesOn(t *testing.T) {
	s := newServer()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	began, release := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		switch {
		case bytes.Contains(b, []byte(`"text":"broken"`)):
			w.WriteHeader(http.StatusBadGateway)
			return
		case bytes.Contains(b, []byte(`"text":"slow"`)):
			close(began)
			<-release
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	a := open(t, at(t, web.URL), t.TempDir(), nil)
	slow := make(chan string, 1)
	go func() {
		got, err := do(t, a, task("1", "m", "upper", "slow", nil))
		slow <- fmt.Sprint(got, err)
	}()
	<-began
	for i := range 10 { // with pauses that grow, the last ones would find no server
		if got, err := do(t, a, task(fmt.Sprint("a", i), "m", "upper", "broken", nil)); err == nil {
			t.Errorf("got %q", got)
		}
		if got, err := do(t, a, task(fmt.Sprint("b", i), "m", "upper", "back", nil)); err != nil || got != "BACK" {
			t.Fatalf("behind it: %q, %v", got, err)
		}
	}
	close(release)
	if got := <-slow; got != "SLOW<nil>" {
		t.Errorf("the slow one: %s", got)
	}
}

// A call that cannot be sent is made in the next session while another call goes on in the one before.
func TestUnsentWhileCallGoesOn(t *testing.T) {
	s := newServer()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	began, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(bytes.NewReader(b)); bytes.Contains(b, []byte(`"text":"slow"`)) {
			close(began)
			<-release
		}
		h.ServeHTTP(w, r)
	})
	web := httptest.NewUnstartedServer(handler)
	web.Config.SetKeepAlivesEnabled(false) // each request has a connection
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	log := &safe{}
	a := open(t, at(t, web.URL), t.TempDir(), slog.New(slog.NewTextHandler(log, nil)))
	made := func(id, text string) chan string {
		is := make(chan string, 1)
		go func() {
			got, err := do(t, a, task(id, "m", "note", text, nil))
			is <- fmt.Sprint(got, " ", err)
		}()
		return is
	}
	t.Setenv("NOTES", filepath.Join(t.TempDir(), "notes"))
	slow := made("1", "slow")
	<-began
	if err := web.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	next := made("2", "next")
	until(t, "the call is refused", func() bool { return strings.Contains(log.String(), "server was lost") })
	l, err := net.Listen("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	back := &http.Server{Handler: handler}
	go func() { _ = back.Serve(l) }()
	t.Cleanup(func() { _ = back.Close() })
	select {
	case got := <-next:
		if got != "noted next <nil>" {
			t.Errorf("the call that was not sent: %s", got)
		}
	case <-time.After(30 * time.Second):
		t.Error("the call that was not sent waits for the slow one")
	}
	close(release)
	if got := <-slow; got != "noted slow <nil>" {
		t.Errorf("the slow one: %s", got)
	}
}

// A response that does not end is not read into memory.
func TestEndlessResponse(t *testing.T) {
	const most, endless = 64 << 20, 512 << 20
	const json, stream = "application/json", "text/event-stream"
	for name, test := range map[string]struct {
		status int
		kind   string
		begin  string
		piece  string // repeated
		zipped bool
	}{
		"result":        {http.StatusOK, json, "", " ", false},
		"error":         {http.StatusBadRequest, json, "", " ", false},
		"event":         {http.StatusOK, stream, "data: ", "A", false},
		"lines":         {http.StatusOK, stream, "", "data: x\n", false},
		"comments":      {http.StatusOK, stream, "", ": x\n", false},
		"zipped result": {http.StatusOK, json, "", " ", true},
		"zipped event":  {http.StatusOK, stream, "data: ", "A", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
			written := make(chan int, 1)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				if r.Body = io.NopCloser(bytes.NewReader(b)); !bytes.Contains(b, []byte(`"text":"endless"`)) {
					h.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", test.kind)
				out := io.Writer(w)
				if test.zipped {
					w.Header().Set("Content-Encoding", "gzip")
					out = gzip.NewWriter(w)
				}
				w.WriteHeader(test.status)
				_, err := io.WriteString(out, test.begin)
				n, piece := 0, []byte(strings.Repeat(test.piece, 1<<20/len(test.piece)))
				for n < endless && err == nil {
					_, err = out.Write(piece)
					n += len(piece)
				}
				written <- n
			}))
			t.Cleanup(func() {
				web.CloseClientConnections()
				web.Close()
			})
			a := open(t, at(t, web.URL), t.TempDir(), nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			want := "the server was lost while it worked"
			if test.status != http.StatusOK {
				want = "400 Bad Request"
			}
			if got, err := do(t, a, task("1", "m", "upper", "endless", nil)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %.100q, %v", got, err)
			}
			if n := <-written; n > most && !test.zipped { // zipped, it is small
				t.Errorf("%d bytes were read", n)
			}
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 4*most {
				t.Errorf("%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
			}
			if got, err := do(t, a, task("2", "m", "upper", "back", nil)); err != nil || got != "BACK" {
				t.Errorf("behind it: %q, %v", got, err)
			}
		})
	}
}

// A server that has very many requests open, and reads no answers, is lost, before they fill the memory.
func TestManyRequests(t *testing.T) {
	a := open(t, program(t), t.TempDir(), nil)
	if got, err := do(t, a, task("1", "m", "ask-on", "", nil)); err == nil || !strings.Contains(err.Error(), "asks more than 256 things") {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := do(t, a, task("2", "m", "upper", "back", nil)); err != nil || got != "BACK" {
		t.Errorf("behind it: %q, %v", got, err)
	}
}

// At an address, the answers that the server does not take do not use up connections: those above the bound are not sent.
func TestManyRequestsAtAddress(t *testing.T) {
	var arrived atomic.Int32
	release := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ID     any
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&q) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		say := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,"result":%s}`, q.ID, result)
		}
		switch q.Method {
		case "": // an answer
			arrived.Add(1)
			<-release
		case "initialize":
			say(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case "tools/list":
			say(`{"tools":[{"name":"ask-on","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 1000 {
				fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":"own%d","method":"ping"}`+"\n\n", i)
			}
			_ = http.NewResponseController(w).Flush()
			for end := time.Now().Add(time.Minute); arrived.Load() == 0 && time.Now().Before(end); {
				<-time.After(5 * time.Millisecond)
			}
			select {
			case <-r.Context().Done():
			case <-time.After(2 * time.Second): // more of them would have arrived
				fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":"asked"}]}}`+"\n\n", q.ID)
			}
		case "server/discover":
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(func() {
		close(release)
		web.CloseClientConnections()
		web.Close()
	})
	a := open(t, at(t, web.URL), t.TempDir(), nil)
	if got, err := do(t, a, task("1", "m", "ask-on", "", nil)); err != nil || got != "asked" {
		t.Errorf("got %q, %v", got, err)
	}
	if n := arrived.Load(); n == 0 || n > 256 {
		t.Errorf("%d answers were on their way at the same time, want 1 to 256", n)
	}
}
