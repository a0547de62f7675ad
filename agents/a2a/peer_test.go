package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
)

// bindings are all that a peer can speak.
var bindings = []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3", "GRPC 0.3"}

// peer is an A2A agent on the SDK's server.
type peer struct {
	t       *testing.T
	store   taskstore.Store
	server  *httptest.Server
	grpc    *grpc.Server
	address string // of gRPC
	release chan struct{}
	login   chan struct{}
	hold    chan struct{} // not nil: replies wait for it

	mu       sync.Mutex
	binding  string
	streams  bool
	card     func(http.ResponseWriter, *http.Request) bool // answers instead, if it returns true
	begun    []string                                      // the texts of tasks that were begun
	messages []*a2a.Message
	canceled []a2a.TaskID
	headers  []http.Header // of all requests but those of the card
	handler  http.Handler
}

// newPeer starts a peer, which ends with the test.
func newPeer(t *testing.T, binding string, streams bool) *peer {
	t.Helper()
	p := &peer{t: t, binding: binding, streams: streams, release: make(chan struct{}), login: make(chan struct{}), store: taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
		Authenticator: func(context.Context) (string, error) { return "cortex", nil },
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	p.grpc = grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			p.note(ctx)
			return next(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			p.note(s.Context())
			return next(srv, s)
		}))
	p.restart()
	h := p.sdk()
	if strings.HasSuffix(binding, "0.3") {
		grpcv0.NewHandler(h).RegisterWith(p.grpc)
	} else {
		grpcv1.NewHandler(h).RegisterWith(p.grpc)
	}
	go p.grpc.Serve(l)
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		select {
		case <-p.release:
		default:
			close(p.release)
		}
		p.server.CloseClientConnections()
		p.server.Close()
		p.grpc.Stop()
	})
	return p
}

func (p *peer) sdk() a2asrv.RequestHandler {
	return a2asrv.NewHandler(p, a2asrv.WithTaskStore(p.store), a2asrv.WithLogger(slog.New(slog.DiscardHandler)))
}

// restart forgets what executes, but not the tasks.
func (p *peer) restart() {
	h, mux := p.sdk(), http.NewServeMux()
	if strings.HasSuffix(p.binding, "0.3") {
		mux.Handle("/rpc", a2av0.NewJSONRPCHandler(h))
		mux.Handle("/rest/", http.StripPrefix("/rest", a2av0.NewRESTHandler(h)))
	} else {
		mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(h))
		mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(h)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = mux
}

// note keeps the metadata of a request over gRPC.
func (p *peer) note(ctx context.Context) {
	h := http.Header{}
	meta, _ := metadata.FromIncomingContext(ctx)
	for k, v := range meta {
		h[http.CanonicalHeaderKey(k)] = v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.headers = append(p.headers, h)
}

func (p *peer) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	card, h := p.card, p.handler
	if r.URL.Path != a2asrv.WellKnownAgentCardPath {
		p.headers = append(p.headers, r.Header.Clone())
	}
	p.mu.Unlock()
	switch {
	case r.URL.Path != a2asrv.WellKnownAgentCardPath:
		h.ServeHTTP(w, r)
	case card == nil || !card(w, r):
		w.Header().Set("Content-Type", "application/json")
		w.Write(p.describe(nil))
	}
}

// describe returns the card, with other fields.
func (p *peer) describe(fields map[string]any) []byte {
	binding, version, _ := strings.Cut(p.binding, " ")
	url := map[string]string{"JSONRPC": p.server.URL + "/rpc", "HTTP+JSON": p.server.URL + "/rest", "GRPC": p.address}[binding]
	card := map[string]any{
		"name": "Weather Bureau", "description": "Knows the weather", "version": "2.0", "capabilities": map[string]any{"streaming": p.streams},
		"defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"}, "fieldToCome": map[string]any{"x": 1},
		"skills": []any{
			map[string]any{"id": "forecast", "name": "Forecast", "description": "Says what it will be", "tags": []string{"weather"}, "examples": []string{"rain?"}},
			map[string]any{"id": "chart", "name": "Chart", "description": "Draws it", "tags": []string{}, "inputModes": []string{"application/json"}},
		},
		"securitySchemes": map[string]any{"b": map[string]any{"futureScheme": map[string]any{}}}, "securityRequirements": []any{map[string]any{"schemes": map[string]any{"b": map[string]any{"list": []string{"x"}}}}},
	}
	if version == "1.0" {
		card["supportedInterfaces"] = []any{map[string]any{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}}
	} else {
		card["protocolVersion"], card["url"], card["preferredTransport"] = "0.3.0", url, binding
	}
	maps.Copy(card, fields)
	b, err := json.Marshal(card)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// begins returns the texts of the tasks that were begun.
func (p *peer) begins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.begun)
}

// Execute implements [a2asrv.AgentExecutor].
func (p *peer) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said := ""
		for _, part := range x.Message.Parts {
			said += part.Text()
		}
		p.mu.Lock()
		p.messages = append(p.messages, x.Message)
		if x.StoredTask == nil {
			p.begun = append(p.begun, said)
		}
		p.mu.Unlock()
		message := func(text string) *a2a.Message {
			return a2a.NewMessageForTask(a2a.MessageRoleAgent, x, a2a.NewTextPart(text))
		}
		state := func(s a2a.TaskState, text string) bool {
			return yield(a2a.NewStatusUpdateEvent(x, s, message(text)), nil)
		}
		if x.StoredTask != nil {
			if p.hold != nil {
				<-p.hold
			}
			state(a2a.TaskStateCompleted, "so it is "+said)
			return
		}
		word, rest, _ := strings.Cut(said, " ")
		if word == "message" {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("no task for "+rest)), nil)
			return
		}
		if word == "error" {
			yield(nil, errors.New("it broke"))
			return
		}
		if !yield(a2a.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		switch word {
		case "say":
			state(a2a.TaskStateWorking, "thinking of "+rest)
			state(a2a.TaskStateCompleted, rest)
		case "stream":
			first := a2a.NewArtifactEvent(x, a2a.NewTextPart("one, "))
			yield(first, nil)
			more := a2a.NewArtifactUpdateEvent(x, first.Artifact.ID, a2a.NewTextPart("two, "))
			yield(more, nil)
			more = a2a.NewArtifactUpdateEvent(x, first.Artifact.ID, a2a.NewTextPart("three"))
			more.LastChunk = true
			yield(more, nil)
			state(a2a.TaskStateCompleted, "Task completed")
		case "dribble":
			first := a2a.NewArtifactEvent(x, a2a.NewTextPart("one, "))
			yield(first, nil)
			yield(a2a.NewArtifactUpdateEvent(x, first.Artifact.ID, a2a.NewTextPart("two, ")), nil)
			select {
			case <-p.release:
				yield(a2a.NewArtifactUpdateEvent(x, first.Artifact.ID, a2a.NewTextPart("three")), nil)
				state(a2a.TaskStateCompleted, "")
			case <-ctx.Done():
			}
		case "files":
			parts := []*a2a.Part{a2a.NewTextPart("here"), {Content: a2a.Raw("a,b\n"), Filename: "../t.csv", MediaType: "text/csv"}}
			parts = append(parts, a2a.NewDataPart(map[string]any{"rain": true}), a2a.NewFileURLPart("https://example.com/x.png", "image/png"))
			parts = append(parts, a2a.NewFileURLPart("cortex-file:c/a/1", "image/png"), a2a.NewFileURLPart("file:///etc/passwd", "text/plain"))
			yield(a2a.NewArtifactEvent(x, parts...), nil)
			state(a2a.TaskStateCompleted, "")
		case "ask":
			state(a2a.TaskStateInputRequired, "Where?")
		case "login":
			state(a2a.TaskStateAuthRequired, "Log in at https://example.com")
			select {
			case <-p.login:
				state(a2a.TaskStateCompleted, "so it is here")
			case <-ctx.Done():
			}
		case "reject":
			state(a2a.TaskStateRejected, "not that")
		case "fail":
			state(a2a.TaskStateFailed, "it went wrong")
		case "wait":
			state(a2a.TaskStateWorking, "waiting")
			select {
			case <-p.release:
				state(a2a.TaskStateCompleted, "waited for "+rest)
			case <-ctx.Done():
			}
		}
	}
}

// Cancel implements [a2asrv.AgentExecutor].
func (p *peer) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		p.mu.Lock()
		p.canceled = append(p.canceled, x.TaskID)
		p.mu.Unlock()
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}

// open makes an agent of a peer.
func open(t *testing.T, dir string, p *peers.Peer) *peers.Agent {
	t.Helper()
	a, err := peers.Open(t.Context(), p, &peers.Options{Dir: dir, Version: "test", Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}
