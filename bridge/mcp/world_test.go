package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/mcp"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is a Cortex with the agents worker and danger, of which danger needs a yes.
type world struct {
	t     *testing.T
	bus   *memory.Bus
	store *memstore.Store
	cards []*a2a.AgentCard
	gate  chan struct{} // closed: "slow" goes on

	mu   sync.Mutex
	done map[string]int // how often each text was done
}

// decider gives everything to worker, what begins with danger to danger, and a reply to who waits for it.
type decider struct{}

func (decider) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		last := t.Steps[len(t.Steps)-1].Tasks[0]
		return &llm.Decision{Kind: llm.KindRespond, Say: last.Result}, nil
	}
	to := llm.Delegation{ID: "a", Agent: "worker", Task: t.User}
	if strings.HasPrefix(t.User, "danger") {
		to.Agent, to.Skill = "danger", "do"
	}
	if len(t.Waiting) > 0 {
		to.ID, to.Agent = string(t.Waiting[0].ID), t.Waiting[0].Agent
	}
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{to}, Reason: "it fits"}, nil
}

func newWorld(t *testing.T, authenticated bool) *world {
	w, begin := stillWorld(t, authenticated)
	begin()
	return w
}

// stillWorld is newWorld whose Cortex does nothing until begin is called.
func stillWorld(t *testing.T, authenticated bool) (w *world, begin func()) {
	w = &world{t: t, bus: memory.New(nil), store: memstore.New(), done: map[string]int{}, gate: make(chan struct{})}
	skills := []a2a.AgentSkill{{ID: "do", Name: "Do", Description: "Does it", Tags: []string{"work"}}}
	w.cards = []*a2a.AgentCard{
		{Name: "danger", Description: "Does what cannot be undone", Version: "1", Skills: skills},
		{Name: "worker", Description: "Does what it is told", Version: "1", Skills: skills},
	}
	w.cards[0] = agentcard.Attach(w.cards[0], &agentcard.Spec{Abilities: map[string]agentcard.Ability{"do": {Confirm: true}}})
	w.cards[1] = agentcard.Attach(w.cards[1], &agentcard.Spec{Abilities: map[string]agentcard.Ability{"do": {InputSchema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}}})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.bus.Close()
	})
	var offered []prompt.Agent
	for _, c := range w.cards {
		offered = append(offered, prompt.Agent{ID: c.Name, Card: c, Seen: true})
		running.Go(func() { _ = agents.Serve(ctx, w.bus, c, agents.Handler(w.work), nil) })
	}
	o, err := cortex.New(cortex.Config{
		Transport: w.bus, Store: w.store, Decider: decider{}, Agents: func(string) []prompt.Agent { return offered }, Authenticated: authenticated,
	})
	must(t, err)
	return w, func() { running.Go(func() { _ = o.Run(ctx) }) }
}

// work is what the agents do.
func (w *world) work(ctx context.Context, task *agents.Task) (*agents.Result, error) {
	text := task.Text()
	w.mu.Lock()
	w.done[text]++
	w.mu.Unlock()
	switch {
	case strings.HasPrefix(text, "slow"):
		task.Progress("half way")
		select {
		case <-w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case text == "paint":
		return agents.InputRequired("Which colour?"), nil
	case text == "red":
		return agents.InputRequired("Dark red?"), nil
	case strings.HasPrefix(text, "file"):
		return &agents.Result{Parts: a2a.ContentParts{a2a.NewTextPart("here"), {Content: a2a.Raw("a,b\n1,2\n"), Filename: "t able.csv", MediaType: "text/csv"}}}, nil
	case text == "trace":
		return agents.Text("trace: " + task.Traceparent[:min(35, len(task.Traceparent))]), nil
	case text == "fail":
		return nil, agents.Rejected(fmt.Errorf("no"))
	}
	return agents.Text("done: " + text), nil
}

func (w *world) times(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done[text]
}

func (w *world) server(wait time.Duration) *mcp.Server {
	return mcp.New(mcp.Config{
		Client: &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond},
		Store:  w.store, Version: "test", Wait: wait,
		Agents: func(context.Context) ([]*a2a.AgentCard, error) { return w.cards, nil },
	})
}

// eras are the revisions of the protocol that are tried, over both transports.
var eras = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// ways are how a client can reach a server.
func ways() []string {
	var all []string
	for _, era := range eras {
		all = append(all, "stdio "+era, "http "+era)
	}
	return all
}

// join connects a client; h is for http, if it is not nil.
func (w *world) join(way string, d *mcp.Server, url string, o *sdk.ClientOptions) *sdk.ClientSession {
	w.t.Helper()
	how, era, _ := strings.Cut(way, " ")
	var tr sdk.Transport
	if how == "stdio" {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		var served sync.WaitGroup
		served.Go(func() {
			if err := d.Serve(w.t.Context(), in, out); err != nil {
				w.t.Errorf("Serve() = %v", err)
			}
			out.Close()
		})
		w.t.Cleanup(func() { toServer.Close(); served.Wait() })
		tr = &sdk.IOTransport{Reader: fromServer, Writer: toServer}
	} else {
		if url == "" {
			s := httptest.NewServer(d.Handler(nil))
			w.t.Cleanup(s.Close)
			url = s.URL
		}
		tr = &sdk.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true, MaxRetries: -1}
	}
	return w.connect(tr, era, o)
}

func (w *world) connect(tr sdk.Transport, era string, o *sdk.ClientOptions) *sdk.ClientSession {
	w.t.Helper()
	if o == nil {
		o = &sdk.ClientOptions{}
	}
	if o.Capabilities == nil {
		o.Capabilities = &sdk.ClientCapabilities{}
		if o.ElicitationHandler != nil {
			o.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}
		}
	}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, o).Connect(w.t.Context(), tr, &sdk.ClientSessionOptions{ProtocolVersion: era})
	must(w.t, err)
	w.t.Cleanup(func() { s.Close() })
	return s
}

// result is what a tool returned.
type result struct {
	State, Answer, Question string
	Turn                    string `json:"turn_id"`
	Context                 string `json:"context_id"`
	Tasks                   []struct{ ID, Agent, State, Result string }
	Files                   []struct{ Name, URI string }
	text                    string
	failed                  bool
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// header is an http.RoundTripper that adds a header.
type header struct{ name, value string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return http.DefaultTransport.RoundTrip(r)
}
