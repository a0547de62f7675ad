package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	transport "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	a2agrpc "github.com/cortex-orchestrator/cortex/bridge/a2a/grpc"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is a Cortex with the agents worker and danger, of which danger needs a yes.
type world struct {
	t     testing.TB
	bus   *memory.Bus
	store *memstore.Store
	cards []*sdk.AgentCard
	gate  chan struct{} // closed: "slow" goes on
	read  chan struct{} // has a value for each piece of a long answer that was read

	rpc map[string]string // where gRPC is, by the address of HTTP

	mu      sync.Mutex
	done    map[string]int // how often each text was done
	stopped map[string]int // how often a task was canceled while at work
	traced  [2]string      // traceparent and tracestate of the last task
}

// decider gives everything to worker, what begins with danger to danger, and a reply to who waits for it.
type decider struct{ read chan struct{} }

func (d decider) Decide(ctx context.Context, t *llm.Turn, write func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		last := t.Steps[len(t.Steps)-1].Tasks[0]
		for piece := range slices.Chunk([]byte(last.Result), 2000) {
			write(string(piece))
			if len(piece) == 2000 { // until somebody has read it
				select {
				case <-d.read:
				case <-ctx.Done():
				}
			}
		}
		return &llm.Decision{Kind: llm.KindRespond, Say: last.Result}, nil
	}
	to := llm.Delegation{ID: "a", Agent: "worker", Task: t.User}
	if strings.HasPrefix(t.User, "danger") {
		to.Agent, to.Skill = "danger", "do"
	}
	if len(t.Waiting) > 0 {
		to.ID, to.Agent = string(t.Waiting[0].ID), t.Waiting[0].Agent
	}
	all := []llm.Delegation{to}
	if strings.HasSuffix(t.User, " twice") && len(t.Waiting) == 0 {
		all[0].Task += " 1"
		all = append(all, llm.Delegation{ID: "b", Agent: to.Agent, Skill: to.Skill, Task: t.User + " 2", Input: json.RawMessage(`{"n":2,"id":12345678901234567890}`)})
	}
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: all, Reason: "it fits"}, nil
}

func newWorld(t testing.TB, authenticated bool) *world {
	w := &world{t: t, rpc: map[string]string{}, bus: memory.New(nil), store: memstore.New(), done: map[string]int{}, stopped: map[string]int{}, gate: make(chan struct{}), read: make(chan struct{})}
	skills := []sdk.AgentSkill{{ID: "do", Name: "Do", Description: "Does it", Tags: []string{"work"}}}
	w.cards = []*sdk.AgentCard{
		{Name: "danger", Description: "Does what cannot be undone", Version: "1", Skills: skills},
		{Name: "kit", Description: "Plays the scenarios of the conformance kit", Version: "1", Skills: skills},
		{Name: "worker", Description: "Does what it is told", Version: "1", Skills: skills},
	}
	w.cards[0] = agentcard.Attach(w.cards[0], &agentcard.Spec{Abilities: map[string]agentcard.Ability{"do": {Confirm: true}}})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.bus.Close()
	})
	var offered []prompt.Agent
	for _, c := range w.cards {
		offered = append(offered, prompt.Agent{ID: c.Name, Card: c, Seen: true})
		work := w.work
		if c.Name == "kit" {
			work = w.play
		}
		running.Go(func() { _ = agents.Serve(ctx, w.bus, c, agents.Handler(work), nil) })
	}
	o, err := cortex.New(cortex.Config{
		Transport: w.bus, Store: w.store, Decider: decider{w.read}, Agents: func(string) []prompt.Agent { return offered }, Authenticated: authenticated,
	})
	must(t, err)
	running.Go(func() { _ = o.Run(ctx) })
	return w
}

// long is more than goes into one piece of an answer.
var long = strings.Repeat("some words ", 500)

// work is what the agents do.
func (w *world) work(ctx context.Context, task *agents.Task) (*agents.Result, error) {
	text := task.Text()
	w.mu.Lock()
	w.done[text]++
	w.traced = [2]string{task.Traceparent, task.Tracestate}
	gate := w.gate
	w.mu.Unlock()
	switch {
	case strings.HasPrefix(text, "slow"):
		task.Progress("half way")
		select {
		case <-gate:
		case <-ctx.Done():
			w.mu.Lock()
			w.stopped[text]++
			w.mu.Unlock()
			return nil, ctx.Err()
		}
	case strings.HasPrefix(text, "paint"):
		return agents.InputRequired("Which colour?"), nil
	case text == "red":
		return agents.InputRequired("Dark red?"), nil
	case strings.HasPrefix(text, "file"):
		return &agents.Result{Parts: sdk.ContentParts{sdk.NewTextPart("here"), {Content: sdk.Raw("a,b\n1,2\n"), Filename: "t able.csv", MediaType: "text/csv"}}}, nil
	case strings.HasPrefix(text, "big"):
		return &agents.Result{Parts: sdk.ContentParts{sdk.NewTextPart("here"), {Content: sdk.Raw(bytes.Repeat([]byte("0123456789"), 100_000)), Filename: "big.bin", MediaType: "application/octet-stream"}}}, nil
	case strings.HasPrefix(text, "huge"):
		return &agents.Result{Parts: sdk.ContentParts{sdk.NewTextPart("here"), {Content: sdk.Raw(make([]byte, 12<<20)), Filename: "huge.bin", MediaType: "application/octet-stream"}}}, nil
	case text == "long":
		return agents.Text("done: " + long), nil
	case text == "fail":
		return nil, agents.Rejected(fmt.Errorf("no"))
	}
	return agents.Text("done: " + text), nil
}

func (w *world) times(of map[string]int, text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return of[text]
}

func (w *world) server() *a2a.Server { return w.doorWith(func(*a2a.Config) {}) }

func (w *world) doorWith(change func(*a2a.Config)) *a2a.Server {
	cfg := a2a.Config{
		Client: &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond},
		Store:  w.store, Version: "test",
		Agents: func(context.Context) ([]*sdk.AgentCard, error) { return w.cards, nil },
	}
	change(&cfg)
	return a2a.New(cfg)
}

// serve serves a server to programs on this machine, and returns its address.
func (w *world) serve(d *a2a.Server, identify a2a.Identify) string {
	s := httptest.NewServer(d.Handler(identify))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a2agrpc.Serve(ctx, l, d, &a2agrpc.Options{Connections: 100, Identify: identify}) }()
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		stop()
		must(w.t, <-ended)
	})
	w.rpc[s.URL] = l.Addr().String()
	return s.URL
}

// until waits for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			w.t.Fatalf("%s: it does not come", what)
		}
		<-time.After(time.Millisecond)
	}
}

var bindings = []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON, sdk.TransportProtocolGRPC}

// join returns the SDK's client of an agent.
func (w *world) join(binding sdk.TransportProtocol, url string, header ...string) *a2aclient.Client {
	w.t.Helper()
	hc := &http.Client{Transport: headers(header)}
	at := &sdk.AgentInterface{URL: url, ProtocolBinding: binding, ProtocolVersion: sdk.Version}
	if base, agent, ok := strings.Cut(url, "/agents/"); binding == sdk.TransportProtocolGRPC {
		if at.URL = w.rpc[base]; ok {
			at.Tenant = agent
		}
	}
	with := func(ctx context.Context) context.Context {
		for i := 0; i < len(header); i += 2 {
			ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(header[i]), header[i+1])
		}
		return ctx
	}
	c, err := a2aclient.NewFromEndpoints(w.t.Context(), []*sdk.AgentInterface{at}, a2aclient.WithJSONRPCTransport(hc), a2aclient.WithRESTTransport(hc),
		transport.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, to any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
				return next(with(ctx), method, req, to, cc, o...)
			}),
			grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
				return next(with(ctx), desc, cc, method, o...)
			})))
	must(w.t, err)
	w.t.Cleanup(func() { _ = c.Destroy() })
	return c
}

// headers is an http.RoundTripper that adds headers.
type headers []string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	return http.DefaultTransport.RoundTrip(r)
}

// said returns a message with a text.
func said(text string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: &sdk.Message{ID: "m1", Role: sdk.MessageRoleUser, Parts: sdk.ContentParts{sdk.NewTextPart(text)}}}
}

// in returns r within a context, or for a task.
func in(r *sdk.SendMessageRequest, contextID string, id sdk.TaskID) *sdk.SendMessageRequest {
	r.Message.ContextID, r.Message.TaskID = contextID, id
	return r
}

// atOnce returns r, not waiting for its end.
func atOnce(r *sdk.SendMessageRequest) *sdk.SendMessageRequest {
	r.Config = &sdk.SendMessageConfig{ReturnImmediately: true}
	return r
}

// send returns the task that a message has led to.
func (w *world) send(c *a2aclient.Client, r *sdk.SendMessageRequest) *sdk.Task {
	w.t.Helper()
	got, err := c.SendMessage(w.t.Context(), r)
	must(w.t, err)
	t, ok := got.(*sdk.Task)
	if !ok {
		w.t.Fatalf("SendMessage() = %T, want a task", got)
	}
	return t
}

func (w *world) get(c *a2aclient.Client, id sdk.TaskID) *sdk.Task {
	w.t.Helper()
	t, err := c.GetTask(w.t.Context(), &sdk.GetTaskRequest{ID: id})
	must(w.t, err)
	return t
}

// answer returns the text of the artifact "answer".
func answer(t *sdk.Task) string {
	for _, a := range t.Artifacts {
		if a.ID == "answer" {
			return text(a.Parts)
		}
	}
	return ""
}

func text(parts sdk.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text())
	}
	return b.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// do makes a plain HTTP request of version 1.0, and returns the status, the header and the body.
func do(t testing.TB, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("A2A-Version", "1.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else if r.Header.Del(header[i]); header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, res.Header, string(b)
}

// rpc makes a call by JSON-RPC, and returns its result and its error.
func rpc(t testing.TB, url, method, params string, header ...string) (result json.RawMessage, code int, reason string) {
	t.Helper()
	_, _, body := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":"x","method":"`+method+`","params":`+params+`}`, header...)
	var said struct {
		JSONRPC string
		ID      any
		Result  json.RawMessage
		Error   *struct {
			Code int
			Data []struct{ Reason, Domain string }
		}
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil || said.JSONRPC != "2.0" || said.ID != "x" {
		t.Fatalf("%s: %s (%v)", method, body, err)
	}
	if said.Error == nil {
		return said.Result, 0, ""
	}
	if len(said.Error.Data) != 1 || said.Error.Data[0].Domain != "a2a-protocol.org" {
		t.Errorf("%s: the error has no ErrorInfo: %s", method, body)
	}
	return nil, said.Error.Code, said.Error.Data[0].Reason
}

// strict checks that b is ProtoJSON of m, with no other field, and with all that are required.
func strict(t testing.TB, b []byte, m proto.Message) {
	t.Helper()
	var v any
	if err := errors.Join(protojson.Unmarshal(b, m), json.Unmarshal(b, &v)); err != nil {
		t.Errorf("%T: %v: %s", m, err, b)
		return
	}
	required(t, v, m.ProtoReflect().Descriptor(), b)
}

// required reports fields that the protocol requires, and v does not have.
func required(t testing.TB, v any, d protoreflect.MessageDescriptor, whole []byte) {
	t.Helper()
	of, ok := v.(map[string]any)
	if !ok || d.ParentFile().Package() != "lf.a2a.v1" { // a time, or the client's own
		return
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		is, there := of[f.JSONName()]
		if (!there || is == nil) && isRequired(f) {
			t.Errorf("%s.%s is required: %s", d.Name(), f.JSONName(), whole)
		}
		switch {
		case f.Message() == nil:
		case f.IsMap():
			values, _ := is.(map[string]any)
			for _, v := range values {
				if f.MapValue().Message() != nil {
					required(t, v, f.MapValue().Message(), whole)
				}
			}
		case f.IsList():
			values, _ := is.([]any)
			for _, v := range values {
				required(t, v, f.Message(), whole)
			}
		default:
			required(t, is, f.Message(), whole)
		}
	}
}

// isRequired reports whether the protocol's definition says REQUIRED.
func isRequired(f protoreflect.FieldDescriptor) bool {
	behavior, err := protoregistry.GlobalTypes.FindExtensionByName("google.api.field_behavior")
	if err != nil {
		panic(err) // it comes with the types of A2A
	}
	list := f.Options().ProtoReflect().Get(behavior.TypeDescriptor()).List()
	for i := range list.Len() {
		if behavior.TypeDescriptor().Enum().Values().ByNumber(list.Get(i).Enum()).Name() == "REQUIRED" {
			return true
		}
	}
	return false
}
