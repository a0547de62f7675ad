package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	sdk "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	bridge "github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/bridge/a2a/grpc"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A2AConfig configures A2A. Contexts is required.
type A2AConfig struct {
	Contexts int           // concurrent conversations
	Turns    int           // of all conversations together, for each binding; 0 is 2,000, or 20 of each if that is more
	Limit    time.Duration // after which nothing more begins; 0 is a minute
	Progress Progress
}

// A2ALine is the measurement of one kind of call. Times are in microseconds.
type A2ALine struct {
	Case      string  `json:"case"`              // "turn", without A2A; "a2a", by way of the A2A server; "floor", a server that only answers
	Binding   string  `json:"binding,omitempty"` // "JSONRPC", "HTTP+JSON" or "GRPC"
	Contexts  int     `json:"contexts"`
	Turns     int     `json:"turns"` // measured
	Wrong     int     `json:"wrong"` // without the right answer
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	PerSecond float64 `json:"per_s"`
}

// addedMost is the required bound of what A2A adds to a turn at p50, in milliseconds.
const addedMost = 1

// defaultA2ATurns is the default number of turns for each binding.
const defaultA2ATurns = 2000

// A2A measures delegated turns by way of Cortex's A2A server, on a node of its own in a temporary folder, for each binding; beside them the same turns
// without A2A, and calls of a server with the same bindings that only answers. A client of A2A and a server that only answers know nothing else of
// Cortex. It returns the lines, and what A2A adds.
func A2A(ctx context.Context, cfg A2AConfig) (lines []A2ALine, figures []Figure, err error) {
	cfg.Limit, cfg.Turns = cmp.Or(cfg.Limit, defaultLimit), cmp.Or(cfg.Turns, max(defaultA2ATurns, defaultEach*cfg.Contexts))
	err = withNode(ctx, nodeConfig{workers: 1}, func(n *node) error {
		lines, err = n.a2a(cfg)
		return err
	})
	return lines, compareA2A(cfg, lines), err
}

// call is a kind of call that is measured.
type call struct {
	line  A2ALine
	side  side
	wrong atomic.Int64
	first atomic.Pointer[string] // the first wrong answer
}

func (n *node) a2a(cfg A2AConfig) (lines []A2ALine, err error) {
	servers, err := n.serveA2A()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	plain := &client.Client{Transport: n.bus, Log: client.ReadLog(n.store, "")}
	calls := []*call{newCall(cfg, "turn", "", func(int) (ask, error) { return plainTurns(plain), nil })}
	for _, b := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON, a2a.TransportProtocolGRPC} {
		for _, s := range []struct {
			name string
			at   *a2aServer
		}{{"floor", servers.floor}, {"a2a", servers.cortex}} {
			calls = append(calls, newCall(cfg, s.name, string(b), func(int) (ask, error) {
				c, err := s.at.join(n.ctx, b)
				return a2aTurns(c), err
			}))
		}
	}
	what := plural(cfg.Contexts, "conversation")
	cfg.Progress.tell(what, 0, 1)
	var sides []*side
	for _, c := range calls {
		for range 2 { // to set up everything
			if _, err := spread(n.ctx, c.side.width, c.side.width, time.Now().Add(cfg.Limit), c.side.do); err != nil {
				return nil, err
			}
		}
		sides = append(sides, &c.side)
	}
	pieces := min(max(1, cfg.Turns/(minPerPiece*cfg.Contexts)), maxPieces)
	if err := interleave(n.ctx, pieces, cfg.Limit, func(done, total int) { cfg.Progress.tell(what, done, total) }, sides...); err != nil {
		return nil, err
	}
	for _, c := range calls {
		s := &c.side.sample
		c.line.Turns, c.line.Wrong = len(s.latencies), int(c.wrong.Load())
		c.line.P50, c.line.P99, c.line.PerSecond = round(s.quantile(0.5)), round(s.quantile(0.99)), round(s.perSecond())
		lines = append(lines, c.line)
		if why := c.first.Load(); why != nil {
			err = errors.Join(err, fmt.Errorf("%s got no right answer (%s %s); the first one was told %.200q", plural(c.line.Wrong, "message"), c.line.Case, c.line.Binding, *why))
		}
	}
	return lines, err
}

// ask says a text in the conversation of a worker, and returns the answer.
type ask func(ctx context.Context, fresh bool, text string) (string, error)

// newCall returns a call, which each worker makes in conversations of its own, of newTurns turns each.
func newCall(cfg A2AConfig, name, binding string, open func(worker int) (ask, error)) *call {
	c := &call{line: A2ALine{Case: name, Binding: binding, Contexts: cfg.Contexts}}
	said, asks := make([]int, cfg.Contexts), make([]ask, cfg.Contexts)
	c.side = side{width: cfg.Contexts, n: cfg.Turns, do: func(ctx context.Context, w int) (_ time.Duration, err error) {
		if asks[w] == nil {
			if asks[w], err = open(w); err != nil {
				return 0, err
			}
		}
		id := fmt.Sprintf("%d-%d", w, said[w])
		text := words(id, []string{workerID(0)}, payload)
		begin := time.Now()
		got, err := asks[w](ctx, said[w]%newTurns == 0, text)
		took := time.Since(begin)
		said[w]++
		if err != nil {
			return 0, err
		}
		if !strings.Contains(got, id) {
			c.wrong.Add(1)
			c.first.CompareAndSwap(nil, &got)
			return 0, errLost
		}
		return took, nil
	}}
	return c
}

// plainTurns returns turns without A2A.
func plainTurns(c *client.Client) ask {
	at := ""
	return func(ctx context.Context, fresh bool, text string) (string, error) {
		if fresh {
			at = c.NextID()
		}
		for e, err := range c.Ask(ctx, client.Text(at, text)) {
			if err != nil {
				return "", err
			}
			if m, ok := e.Payload.(*a2a.Message); ok {
				return transport.Text(m.Parts), nil
			}
		}
		return "", errLost
	}
}

// a2aTurns returns turns by way of an A2A server.
func a2aTurns(c *a2aclient.Client) ask {
	at := ""
	return func(ctx context.Context, fresh bool, text string) (string, error) {
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
		if !fresh {
			m.ContextID = at
		}
		got, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: m})
		if err != nil {
			return "", err
		}
		t, ok := got.(*a2a.Task)
		if !ok || t.Status.State != a2a.TaskStateCompleted || len(t.Artifacts) == 0 {
			return fmt.Sprintf("%+v", got), nil
		}
		at = t.ContextID
		return transport.Text(t.Artifacts[0].Parts), nil
	}
}

// compareA2A returns what A2A adds to turns.
func compareA2A(cfg A2AConfig, lines []A2ALine) []Figure {
	var figures []Figure
	of, turn := plural(cfg.Contexts, "conversation"), A2ALine{}
	for _, l := range lines {
		if l.Turns == 0 {
			return nil
		}
		switch l.Case {
		case "turn":
			turn = l
		case "a2a":
			added := Figure{
				Case: "added_p50", What: fmt.Sprintf("added to a turn at p50, %s, %s", l.Binding, of), Value: (l.P50 - turn.P50) / 1000, Unit: "ms", Less: true,
			}
			if cfg.Contexts == 1 {
				added.Least = addedMost
			}
			figures = append(figures, added, Figure{
				Case: "rate_ratio", What: fmt.Sprintf("turns/s, %s, %s", l.Binding, of), Value: ratio(l.PerSecond, turn.PerSecond), Unit: "x without A2A",
			})
		}
	}
	return figures
}

// a2aServer is an A2A server in this process.
type a2aServer struct {
	http, grpc string // addresses
	client     *http.Client
}

// a2aServers are Cortex and a server that only answers.
type a2aServers struct {
	cortex, floor *a2aServer
	stage
	pool *http.Transport
}

// Connections of each listener.
const a2aConnections = 2 * maxA2AContexts

const maxA2AContexts = 1000

// serveA2A serves both until Close.
func (n *node) serveA2A() (_ *a2aServers, err error) {
	s := &a2aServers{pool: &http.Transport{MaxIdleConnsPerHost: maxA2AContexts}}
	s.ctx, s.end = context.WithCancel(n.ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	plain := &client.Client{Transport: n.bus, Log: client.ReadLog(n.store, "")}
	online := func(context.Context) ([]*a2a.AgentCard, error) { return nil, nil } // the cards are not asked for
	cortex := bridge.New(bridge.Config{Client: plain, Store: n.store, Agents: online, Version: "bench"})
	s.cortex, err = s.serve(cortex.Handler(nil), func(l net.Listener) error {
		return grpc.Serve(s.ctx, l, cortex, &grpc.Options{Connections: a2aConnections})
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/{$}", a2asrv.NewJSONRPCHandler(answering{}))
	mux.Handle("/", a2asrv.NewRESTHandler(answering{}))
	s.floor, err = s.serve(mux, func(l net.Listener) error {
		g := sdk.NewServer()
		a2agrpc.NewHandler(answering{}).RegisterWith(g)
		defer context.AfterFunc(s.ctx, g.Stop)()
		return g.Serve(l)
	})
	return s, err
}

// serve serves a handler over HTTP, and what gRPC serves, at addresses of their own.
func (s *a2aServers) serve(h http.Handler, rpc func(net.Listener) error) (*a2aServer, error) {
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := new(net.ListenConfig).Listen(s.ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners[i] = l
	}
	s.Go(func() error {
		return httpserver.Serve(s.ctx, listeners[0], h, &httpserver.Options{Connections: a2aConnections, Body: bridge.MaxBody})
	})
	s.Go(func() error { return rpc(listeners[1]) })
	return &a2aServer{"http://" + listeners[0].Addr().String(), listeners[1].Addr().String(), &http.Client{Transport: s.pool}}, nil
}

// Close ends the servers.
func (s *a2aServers) Close() error {
	s.end()
	s.pool.CloseIdleConnections()
	return s.Wait()
}

// join returns a client of the server.
func (s *a2aServer) join(ctx context.Context, b a2a.TransportProtocol) (*a2aclient.Client, error) {
	at := s.http
	if b == a2a.TransportProtocolGRPC {
		at = s.grpc
	}
	return a2aclient.NewFromEndpoints(ctx, []*a2a.AgentInterface{a2a.NewAgentInterface(at, b)},
		a2aclient.WithJSONRPCTransport(s.client), a2aclient.WithRESTTransport(s.client), a2agrpc.WithGRPCTransport(sdk.WithTransportCredentials(insecure.NewCredentials())))
}

// answering is an A2A server that only answers: each message is a task that is completed, with the message's words.
type answering struct{ a2asrv.RequestHandler }

// SendMessage implements a2asrv.RequestHandler.
func (answering) SendMessage(_ context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	at := cmp.Or(r.Message.ContextID, "c")
	return &a2a.Task{
		ID: a2a.NewTaskID(), ContextID: at, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: new(time.Now())},
		Artifacts: []*a2a.Artifact{{ID: "answer", Parts: r.Message.Parts}}, History: []*a2a.Message{r.Message},
	}, nil
}
