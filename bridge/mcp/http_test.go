package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/bridge/mcp"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestOthers has two people ask: neither sees or changes what is the other's.
func TestOthers(t *testing.T) {
	w := newWorld(t, true)
	servers := map[string]*httptest.Server{}
	for who, wait := range map[string]time.Duration{"ada": 0, "bob": 300 * time.Millisecond} { // who waits for nothing
		servers[who] = httptest.NewServer(w.server(wait).Handler(func(token string) (string, error) {
			if !strings.HasPrefix(token, "of-") {
				return "", errors.New("that is no token")
			}
			return "user:" + token[3:], nil
		}))
		defer servers[who].Close()
	}
	for _, era := range eras {
		as := func(who string) *sdk.ClientSession {
			return w.connect(&sdk.StreamableClientTransport{Endpoint: servers[who].URL, DisableStandaloneSSE: true, MaxRetries: -1, HTTPClient: &http.Client{Transport: header{"Authorization", "Bearer of-" + who}}}, era, nil)
		}
		ada, bob := as("ada"), as("bob")
		r := w.call(ada, "ask", `{"text":"danger","key":"k"}`)
		file := w.call(ada, "ask_agent", `{"agent":"worker","text":"file","context_id":"`+r.Context+`"}`)
		id := `"turn_id":"` + r.Turn + `"`
		if x := w.call(bob, "get_turn", "{"+id+"}"); x.State != "unknown" || strings.Contains(x.text, "danger") {
			t.Errorf("%s: get_turn of another's = %+v", era, x)
		}
		if x := w.call(bob, "reply", "{"+id+`,"text":"yes"}`); !x.failed || w.times("danger") > 0 {
			t.Errorf("%s: reply to another's = %+v", era, x)
		}
		if x := w.call(bob, "cancel", "{"+id+`}`); x.State != "unknown" {
			t.Errorf("%s: cancel of another's = %+v", era, x)
		}
		if x := w.call(bob, "ask", `{"text":"danger","key":"k"}`); x.Turn == r.Turn {
			t.Errorf("%s: ask with another's key = %+v", era, x)
		}
		x := w.call(bob, "ask", `{"text":"what was said?","context_id":"`+r.Context+`"}`)
		w.until("the refusal", func() bool {
			if x.State == "unknown" {
				x = w.call(bob, "get_turn", `{"turn_id":"`+x.Turn+`"}`)
			}
			return x.State != "unknown"
		})
		if x.State != "failed" {
			t.Errorf("%s: ask in another's conversation = %+v", era, x)
		}
		for _, uri := range []string{file.Files[0].URI, "cortex://conversations/" + r.Context} {
			if x, err := bob.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("%s: %s = %v", era, uri, x.Contents[0])
			}
		}
		if x, err := bob.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "cortex://conversations"}); err != nil || strings.Contains(x.Contents[0].Text, r.Context) {
			t.Errorf("%s: another's conversations = %v, %v", era, x, err)
		}
		if x := w.call(ada, "get_turn", "{"+id+"}"); x.State != "completed" && x.State != "input_required" {
			t.Errorf("%s: get_turn of one's own = %+v", era, x)
		}
	}
}

// post sends a message to a server as any program can.
func post(t *testing.T, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, res.Header, string(b)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// begin begins a session of before 2026-07-28.
func begin(t *testing.T, url string) string {
	t.Helper()
	_, h, _ := post(t, url, initialize)
	id := h.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("there is no session")
	}
	post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)
	return id
}

// TestSentAgain sends the same request twice, as a program does whose connection was lost.
func TestSentAgain(t *testing.T) {
	w := newWorld(t, false)
	srv := httptest.NewServer(w.server(0).Handler(nil))
	defer srv.Close()
	for i, session := range []string{begin(t, srv.URL), begin(t, srv.URL)} {
		for range 2 {
			code, _, body := post(t, srv.URL, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"text":"order"}}}`,
				"Mcp-Session-Id", session, "Cortex-Mcp-Call", "of my own")
			if code != http.StatusOK || !strings.Contains(body, "done: order") {
				t.Fatalf("ask = %d %s", code, body)
			}
		}
		if n := w.times("order"); n != i+1 {
			t.Errorf("session %d: done %d times", i, n)
		}
	}
	// What names a call is not taken from outside.
	s := w.connect(&sdk.StreamableClientTransport{Endpoint: srv.URL, HTTPClient: &http.Client{Transport: header{"Cortex-Mcp-Call", "mine"}}}, "2026-07-28", nil)
	for range 2 {
		w.call(s, "ask", `{"text":"book"}`)
	}
	if n := w.times("book"); n != 2 {
		t.Errorf("two calls: done %d times", n)
	}
}

func TestWhoIsLetIn(t *testing.T) {
	w := newWorld(t, false)
	open := httptest.NewServer(w.server(0).Handler(nil))
	defer open.Close()
	locked := httptest.NewServer(w.server(0).Handler(func(token string) (string, error) {
		if token == "good" {
			return "user:ada", nil
		}
		return "", errors.New("that is no token")
	}))
	defer locked.Close()
	far := w.server(0).Handler(nil)
	for name, test := range map[string]struct {
		url    string
		header []string
		want   int
	}{
		"a program here":     {open.URL, nil, 200},
		"by way of a proxy":  {open.URL, []string{"X-Forwarded-For", "10.0.0.1"}, 403},
		"by way of a mesh":   {open.URL, []string{"X-Forwarded-Proto", "http"}, 403},
		"a page elsewhere":   {open.URL, []string{"Origin", "https://evil.example"}, 403},
		"a page, by its DNS": {open.URL, []string{"Host", "evil.example"}, 403},
		"no token":           {locked.URL, nil, 401},
		"a wrong token":      {locked.URL, []string{"Authorization", "Bearer bad"}, 401},
		"another kind":       {locked.URL, []string{"Authorization", "Basic good"}, 401},
		"a token":            {locked.URL, []string{"Authorization", "Bearer good"}, 200},
		"a token, by a name": {locked.URL, []string{"Authorization", "Bearer good", "Host", "cortex.internal", "X-Forwarded-For", "10.0.0.1"}, 200},
		"and no token":       {locked.URL, []string{"Host", "cortex.internal"}, 401},
		"no such session":    {open.URL, []string{"Mcp-Session-Id", "none"}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, body := post(t, test.url, initialize, test.header...); code != test.want {
				t.Errorf("%d %s, want %d", code, body, test.want)
			}
		})
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for url, want := range map[string]int{open.URL: 403, locked.URL: 200} { // without sessions
		code, _, body := post(t, url, list, "Host", "cortex.internal", "Authorization", "Bearer good", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
		if code != want {
			t.Errorf("%s, by a name: %d %s, want %d", url, code, body, want)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://cortex/mcp", strings.NewReader(initialize))
	r.RemoteAddr = "192.0.2.1:1234"
	rec := httptest.NewRecorder()
	if far.ServeHTTP(rec, r); rec.Code != http.StatusForbidden {
		t.Errorf("from elsewhere: %d %s", rec.Code, rec.Body)
	}
	// A session is its owner's.
	_, h, _ := post(t, locked.URL, initialize, "Authorization", "Bearer good")
	if code, _, _ := post(t, locked.URL, initialize, "Mcp-Session-Id", h.Get("Mcp-Session-Id")); code != http.StatusUnauthorized {
		t.Errorf("another's session: %d", code)
	}
}

// TestRevoked has calls wait whose caller's token is revoked: they end, and say nothing of the turn.
func TestRevoked(t *testing.T) {
	w := newWorld(t, true)
	revoked := atomic.Bool{}
	url := httptest.NewServer(w.server(20 * time.Second).Handler(func(string) (string, error) {
		if revoked.Load() {
			return "", errors.New("it is revoked")
		}
		return "user:ada", nil
	}))
	defer url.Close()
	said := make(chan string)
	for _, era := range eras {
		ada := w.connect(&sdk.StreamableClientTransport{Endpoint: url.URL, DisableStandaloneSSE: true, MaxRetries: -1, HTTPClient: &http.Client{Transport: header{"Authorization", "Bearer good"}}}, era, nil)
		go func() {
			r, err := ada.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"text": "slow " + era}})
			if err == nil && r.StructuredContent != nil { // the end of a stream may come as an empty result
				said <- era + ": " + fmt.Sprint(r.StructuredContent)
				return
			}
			said <- ""
		}()
	}
	for _, era := range eras {
		w.until("the call waits", func() bool { return w.times("slow "+era) == 1 })
	}
	revoked.Store(true)
	for range eras {
		if answer := <-said; answer != "" {
			t.Errorf("a call whose token is revoked was answered: %s", answer)
		}
	}
}

// TestManyConnections has bob's requests take all connections, again and again: the call of ada that waits goes on.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, true)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		_ = httpserver.Serve(ctx, l, w.server(time.Minute).Handler(func(token string) (string, error) { return "user:" + token, nil }), &httpserver.Options{Connections: 8})
	})
	ada := w.connect(&sdk.StreamableClientTransport{Endpoint: "http://" + l.Addr().String(), DisableStandaloneSSE: true, MaxRetries: -1, HTTPClient: &http.Client{Transport: header{"Authorization", "Bearer ada"}}}, eras[0], nil)
	said := w.later(ada, "ask", `{"text":"slow"}`)
	w.until("the call waits", func() bool { return w.times("slow") == 1 })
	var cut atomic.Int32
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
				_, _ = io.Copy(io.Discard, c) // until it is closed
				_ = c.Close()
				stop()
				cut.Add(1)
			}
		})
	}
	w.until("many are closed for others", func() bool { return cut.Load() >= 40 })
	close(w.gate)
	if r := <-said; r.State != "completed" {
		t.Errorf("the call of somebody else: %+v", r)
	}
}

// TestGuessedConversation has bob begin the conversation of ada's next call, whose words he has guessed, and share it: her words do not get there.
func TestGuessedConversation(t *testing.T) {
	ask := func(w *world) *result {
		at := httptest.NewServer(w.server(time.Minute).Handler(func(token string) (string, error) { return "user:" + token, nil }))
		t.Cleanup(at.Close)
		ada := w.connect(&sdk.StreamableClientTransport{Endpoint: at.URL, DisableStandaloneSSE: true, MaxRetries: -1, HTTPClient: &http.Client{Transport: header{"Authorization", "Bearer ada"}}}, eras[0], nil)
		return w.call(ada, "ask", `{"text":"secret","key":"k"}`)
	}
	guessed := ask(newWorld(t, true)).Context
	w := newWorld(t, true)
	begin := &transport.Event{ID: "m1", From: "user:bob", ContextID: guessed, Payload: &a2a.Message{ID: "m1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hello")}}}
	share := &transport.Event{ID: "m2", From: "user:bob", ContextID: guessed, Payload: &transport.Share{With: []string{"user:ada"}}}
	for _, e := range []*transport.Event{begin, share} {
		e.Time = time.Now()
		must(t, w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e))
	}
	w.until("it is shared", func() bool {
		conv, err := storage.Load(t.Context(), w.store, "", guessed)
		return err == nil && len(conv.Shared) == 1
	})
	if r := ask(w); r.State != "failed" || !strings.Contains(r.text, "meant for one of your own") || w.times("secret") > 0 {
		t.Errorf("%+v", r)
	}
}

// TestSessionsAreBounded begins more sessions than a caller may have: the one that was used least recently ends.
func TestSessionsAreBounded(t *testing.T) {
	w := newWorld(t, false)
	srv := httptest.NewServer(w.server(0).Handler(nil))
	defer srv.Close()
	alive := func(id string) bool {
		code, _, _ := post(t, srv.URL, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id)
		return code == http.StatusOK
	}
	var ids []string
	for range 64 {
		ids = append(ids, begin(t, srv.URL))
	}
	if !alive(ids[0]) {
		t.Fatal("the first session ended early")
	}
	newest := begin(t, srv.URL)
	if !alive(ids[0]) || alive(ids[1]) || !alive(newest) {
		t.Error("another session has ended than the one that was used least recently")
	}
}

// TestSessionsAreBoundedAtOnce begins sessions from many connections at once.
func TestSessionsAreBoundedAtOnce(t *testing.T) {
	w := newWorld(t, false)
	srv := httptest.NewServer(w.server(0).Handler(nil))
	defer srv.Close()
	var mu sync.Mutex
	var ids []string
	var begun sync.WaitGroup
	for range 16 {
		begun.Go(func() {
			for range 20 {
				code, h, body := post(t, srv.URL, initialize)
				if code != http.StatusOK {
					t.Errorf("%d %s", code, body)
				}
				mu.Lock()
				ids = append(ids, h.Get("Mcp-Session-Id"))
				mu.Unlock()
			}
		})
	}
	begun.Wait()
	alive := 0
	for _, id := range ids {
		if code, _, _ := post(t, srv.URL, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id); code == http.StatusOK {
			alive++
		}
	}
	if alive > 64 || alive < 48 { // 16 places may have been kept for the last ones
		t.Errorf("%d sessions are alive, want 64 at most", alive)
	}
}

// crowd is a store that lists conversations of bob before the others, with or without their owner.
type crowd struct {
	storage.Store
	n       int
	outline *storage.Outline
}

func (c crowd) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		for i := range c.n {
			if !yield(storage.ContextInfo{ContextID: fmt.Sprint("of-bob-", i), Title: "bob's", Outline: c.outline}, nil) {
				return
			}
		}
		for info, err := range c.Store.Contexts(ctx, tenant) {
			if !yield(info, err) {
				return
			}
		}
	}
}

// TestConversationsInACrowd has Ada list her conversations where others have spoken more recently, and more often than is looked at.
func TestConversationsInACrowd(t *testing.T) {
	w := newWorld(t, true)
	read := func(store storage.Store) []*sdk.ResourceContents {
		d := mcp.New(mcp.Config{
			Client: &client.Client{Transport: w.bus, User: "user:ada", Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond},
			Store:  store, Agents: func(context.Context) ([]*a2a.AgentCard, error) { return w.cards, nil },
		})
		s := w.join("stdio 2026-07-28", d, "", nil)
		w.call(s, "ask", `{"text":"hello","context_id":"of-ada"}`)
		r, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "cortex://conversations"})
		must(t, err)
		return r.Contents
	}
	known := read(crowd{w.store, 5000, &storage.Outline{Owner: "user:bob"}})
	if len(known) != 1 || !strings.Contains(known[0].Text, "of-ada") || strings.Contains(known[0].Text, "bob") {
		t.Errorf("where the owners are known: %s", known[0].Text)
	}
	if all := read(crowd{w.store, 5000, nil}); len(all) != 2 || strings.TrimSpace(all[0].Text) != "[]" || !strings.Contains(all[1].Text, "Not all conversations") {
		t.Errorf("where they are not: %s", all[0].Text)
	}
	if all := read(crowd{w.store, 60, &storage.Outline{Owner: "user:ada"}}); len(all) != 2 || !strings.Contains(all[1].Text, "newest 50") {
		t.Errorf("more of her own than are listed: %s", all[0].Text)
	}
}
