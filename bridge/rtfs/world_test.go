package rtfs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is a Cortex with a registry. It decides nothing by itself: all that it is asked names an agent.
type world struct {
	t      testing.TB
	bus    *memory.Bus
	store  *memstore.Store
	dir    *directory.Directory
	client *client.Client
	o      options
	times  times
	log    words

	b       *bridge
	address string
	stop    func()
}

// words is a log.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *words) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *words) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// undecided is a model that is not asked.
type undecided struct{}

func (undecided) Decide(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) {
	return &llm.Decision{Kind: llm.KindRespond, Say: "nobody should ask this"}, nil
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), times: usual, o: options{address: "127.0.0.1:0"}}
	w.times.again = 10 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.bus.Close()
	})
	w.dir = directory.New(registry.Config{Announce: true})
	w.client = &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond}
	w.client.OnSend = func(e *transport.Event) { e.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }
	o, err := cortex.New(cortex.Config{
		Transport: w.bus, Store: w.store, Decider: undecided{}, Agents: w.dir.Routable, Present: w.dir.Present, NoLearning: true,
	})
	must(t, err)
	w.dir.Tell(o)
	running.Go(func() { _ = w.dir.Registry.Run(ctx, w.bus) })
	running.Go(func() { _ = o.Run(ctx) })
	return w
}

// site is what a role gets.
func (w *world) site() *role.Site {
	out := io.Writer(&w.log)
	if testing.Verbose() {
		out = io.MultiWriter(out, w.t.Output())
	}
	return &role.Site{
		Logger: slog.New(slog.NewTextHandler(out, nil)), Client: w.client, Transport: w.bus, Store: w.store,
		Leads: func() bool { return true }, Ready: func() {}, Listeners: 1,
		Agents: func() []*a2a.AgentCard {
			var all []*a2a.AgentCard
			for _, r := range w.dir.Registry.Snapshot().Routable() {
				all = append(all, r.Card)
			}
			return all
		},
	}
}

// serve starts the registry, again after stop.
func (w *world) serve() {
	w.t.Helper()
	at := w.site()
	b, err := newBridge(at, &w.o, w.times)
	must(w.t, err)
	w.b = b
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- b.run(ctx, func(ctx context.Context) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			ready <- l.Addr().String()
			return at.Serve(ctx, l, b.handler())
		})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.t.Cleanup(w.stop)
	select {
	case w.address = <-ready:
	case <-time.After(10 * time.Second):
		w.t.Fatal("the registry does not start")
	}
}

// post posts a body as it is, and returns the status and the body of the answer.
func (w *world) post(path, body string, header ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+w.address+path, strings.NewReader(body))
	must(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	must(w.t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	must(w.t, err)
	return a.StatusCode, string(b)
}

// library calls a method as the client library does: with an id that is a text, no tolerance for another status than 2xx, and the fields it requires.
func (w *world) library(method string, params any, result any) error {
	w.t.Helper()
	p, err := json.Marshal(params)
	must(w.t, err)
	status, body := w.post("/rtfs", fmt.Sprintf(`{"jsonrpc":"2.0","id":"5b0c7a52-0d5c-4b55-9f5e-0a2f6a0f9b11","method":%q,"params":%s}`, method, p))
	if status < 200 || status > 299 {
		return fmt.Errorf("HTTP %d", status)
	}
	var a struct {
		Version *string          `json:"jsonrpc"`
		ID      *string          `json:"id"`
		Result  *json.RawMessage `json:"result"`
		Error   *struct {
			Code    *int32  `json:"code"`
			Message *string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		return fmt.Errorf("parse %s: %w", body, err)
	}
	switch {
	case a.Version == nil || a.ID == nil:
		return fmt.Errorf("parse %s: jsonrpc and id are required", body)
	case a.Error != nil && (a.Error.Code == nil || a.Error.Message == nil):
		return fmt.Errorf("parse %s: code and message are required", body)
	case a.Error != nil:
		return fmt.Errorf("%d: %s", *a.Error.Code, *a.Error.Message)
	case result == nil:
		return nil
	case a.Result == nil:
		return fmt.Errorf("parse %s: no result", body)
	}
	return json.Unmarshal(*a.Result, result)
}

// strictCard is an agent_card as the client library reads it: every field that is no option is required.
type strictCard struct {
	AgentID      string  `json:"agent_id"`
	ProfileURI   *string `json:"agent_profile_uri"`
	Name         string  `json:"name"`
	Version      string  `json:"version"`
	Description  string  `json:"description"`
	Capabilities []struct {
		ID          string         `json:"capability_id"`
		Description string         `json:"description"`
		Input       *string        `json:"input_schema_ref"`
		Output      *string        `json:"output_schema_ref"`
		Version     *string        `json:"version"`
		Metadata    map[string]any `json:"metadata"`
	} `json:"capabilities"`
	Communication struct {
		Protocols []string `json:"protocols"`
		Endpoints []struct {
			Protocol string         `json:"protocol"`
			URI      string         `json:"uri"`
			Details  map[string]any `json:"details"`
		} `json:"endpoints"`
	} `json:"communication"`
	Tags     []string       `json:"discovery_tags"`
	Metadata map[string]any `json:"metadata"`
}

// UnmarshalJSON requires what the client library does.
func (c *strictCard) UnmarshalJSON(b []byte) error {
	var is map[string]json.RawMessage
	if err := json.Unmarshal(b, &is); err != nil {
		return err
	}
	for _, key := range []string{"agent_id", "name", "version", "description", "capabilities", "communication", "discovery_tags", "metadata"} {
		if raw, ok := is[key]; !ok || string(raw) == "null" {
			return fmt.Errorf("missing field %s in %s", key, b)
		}
	}
	if _, ok := is["agent_profile_uri"]; !ok {
		return fmt.Errorf("missing field agent_profile_uri in %s", b)
	}
	type plain strictCard
	return json.Unmarshal(b, (*plain)(c))
}

// discover returns the agents that meet criteria, as the client library does.
func (w *world) discover(criteria map[string]any) (all []*strictCard) {
	w.t.Helper()
	var r struct {
		Agents []*strictCard `json:"agents"`
		Total  *uint32       `json:"total_count"`
		Took   *uint64       `json:"query_time_ms"`
	}
	must(w.t, w.library("rtfs.registry.discover", criteria, &r))
	if r.Agents == nil || r.Total == nil || r.Took == nil {
		w.t.Errorf("discover(%v): a field is missing", criteria)
	}
	return r.Agents
}

// ids returns the ids of the agents that meet criteria.
func (w *world) ids(criteria map[string]any) string {
	w.t.Helper()
	var ids []string
	for _, c := range w.discover(criteria) {
		ids = append(ids, c.AgentID)
	}
	return strings.Join(ids, " ")
}

// register registers an agent, and fails the test if it cannot.
func (w *world) register(card map[string]any, endpoint string, ttl any) (expires string) {
	w.t.Helper()
	var r struct {
		Status  *string `json:"status"`
		ID      *string `json:"agent_id"`
		Expires *string `json:"expires_at"`
	}
	must(w.t, w.library("rtfs.registry.register", map[string]any{"agent_card": card, "endpoint_url": endpoint, "ttl_seconds": ttl}, &r))
	if r.Status == nil || *r.Status != "registered" || r.ID == nil || *r.ID != card["agent_id"] || r.Expires == nil {
		w.t.Fatalf("register: %v", r)
	}
	return *r.Expires
}

// pdf returns the card of an agent, as the client library writes it.
func pdf(id, endpoint string) map[string]any {
	return map[string]any{
		"agent_id": id, "agent_profile_uri": nil, "name": "PDF tools", "version": "1.4.0", "description": "Reads and splits PDF files",
		"capabilities": []any{map[string]any{
			"capability_id": "pdf.split", "description": "Splits a PDF by page", "input_schema_ref": nil, "output_schema_ref": nil, "version": "1.10.0", "metadata": nil,
		}},
		"communication":  map[string]any{"protocols": []string{"http"}, "endpoints": []any{map[string]any{"protocol": "http", "uri": endpoint, "details": nil}}},
		"discovery_tags": []string{"pdf", "documents"}, "metadata": map[string]any{"owner": "docs-team"},
	}
}

// plainAgent is an agent that is called by HTTP, and keeps the calls.
type plainAgent struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	heads []http.Header
	do    func(w http.ResponseWriter, n int, r *http.Request)
}

func newAgent(t testing.TB, do func(w http.ResponseWriter, n int, r *http.Request)) *plainAgent {
	a := &plainAgent{do: do}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.calls, a.heads = append(a.calls, string(body)), append(a.heads, r.Header)
		n := len(a.calls)
		a.mu.Unlock()
		a.do(w, n, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// says answers a call.
func says(answer string) func(http.ResponseWriter, int, *http.Request) {
	return func(w http.ResponseWriter, _ int, _ *http.Request) { _, _ = io.WriteString(w, answer) }
}

func (a *plainAgent) called() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// knows waits until Cortex can give work to an agent.
func (w *world) knows(id string) {
	w.t.Helper()
	w.until(id+" is there", func() bool { return w.has(id) })
}

func (w *world) has(id string) bool {
	r, ok := w.dir.Registry.Snapshot().Get(id)
	return ok && r.Routable()
}

// until waits until something is true.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it never came true that %s", what)
		}
	}
}

// ask has an agent do something, and returns the answer.
func (w *world) ask(agent, skill, text, input string) string {
	w.t.Helper()
	m := client.Text(w.client.NextID(), text)
	if input != "" {
		m.Parts = a2a.ContentParts{a2a.NewDataPart(json.RawMessage(input))}
	}
	m.To = &transport.Direct{Agent: agent, Skill: skill}
	turn, err := w.client.Send(w.t.Context(), m)
	must(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	said, err := w.client.Answer(ctx, turn)
	must(w.t, err)
	return transport.Text(said.Parts)
}

// join serves one of Cortex's own agents.
func (w *world) join(card *a2a.AgentCard, h agents.Handler) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = agents.Serve(ctx, w.bus, card, h, nil)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	w.knows(card.Name)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
