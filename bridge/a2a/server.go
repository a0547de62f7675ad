package a2a

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// Config configures a Server. Client, Store and Agents are required.
type Config struct {
	// Client asks Cortex. Its User is the caller where no token names another. It needs a Log.
	Client *client.Client
	Store  storage.Store // only read
	// Agents returns the cards of the agents that can be given work now.
	Agents  func(context.Context) ([]*a2a.AgentCard, error)
	Version string // of Cortex
	// GRPC is the port at which package grpc serves the Server, for the cards; "" is none.
	GRPC string
	// Old serves clients of A2A 0.3 as well, and has the cards say so.
	Old bool
	// Push has it push notifications, if the Store is a [storage.Notes]; nil: they are refused, and the cards say so. Somebody calls [Server.Push].
	Push   *Push
	Logger *slog.Logger // nil discards
}

// Server is Cortex as an A2A server. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	waiting  kit.Calls // that wait
	pending  pending
	readings readings
	outbox   *outbox // nil: notifications are not pushed

	answering budget
	asking    budget
	beginning budget // of conversations that are read from their beginnings
	large     budget
	arriving  *httpserver.Room // for bodies of requests
	decoding  *httpserver.Room // for those that are large
	sending   *httpserver.Room // for large messages on their way to the store

	mu    sync.Mutex
	cards recent.Cache[string, seenCard]
	lists recent.Cache[string, listed]
}

var _ a2asrv.RequestHandler = (*Server)(nil)

// New returns a Server.
func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Server{
		cfg: cfg, outbox: newOutbox(&cfg), answering: budget{most: mostAnswered, own: ownAnswered}, asking: budget{most: mostAsked, own: ownAsked},
		beginning: budget{most: mostBeginning, own: ownBeginning}, large: budget{most: mostLarge, own: 1},
		arriving: httpserver.NewRoom(mostArriving, ownArriving), decoding: httpserver.NewTurns(),
		sending: httpserver.NewRoom(math.MaxInt64, 1),
	}
}

// caller is who makes a call, and which agent they call.
type caller struct {
	*client.Client        // asks in their name
	agent          string // "" is Cortex itself
	held           *held
	token          string // that the call has shown; "" where nobody has one
}

type callerKey struct{}

// With returns ctx for a call of a user to an agent, which [Server.Done] ends. An empty user is that of the Server's client, an empty agent Cortex itself.
func (s *Server) With(ctx context.Context, user, agent string) context.Context {
	own := *s.cfg.Client
	if user != "" {
		own.User = user
	}
	return context.WithValue(storage.WithRequester(ctx, own.User), callerKey{}, &caller{Client: &own, agent: agent, held: &held{}})
}

// WithToken returns the ctx of a call with the bearer token that it has shown.
func (s *Server) WithToken(ctx context.Context, token string) context.Context {
	c, err := callerOf(ctx)
	if err != nil {
		return ctx
	}
	own := *c
	own.token = token
	return context.WithValue(ctx, callerKey{}, &own)
}

func callerOf(ctx context.Context) (*caller, error) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return nil, a2a.ErrUnauthenticated
	}
	return c, nil
}

// user returns the sender of the caller's messages.
func (c *caller) user() string {
	return cmp.Or(c.User, "user")
}

// mostWaiting bounds the calls of a user that wait, streams among them.
const mostWaiting = 1024

const (
	mostPending  = 4096
	pendingBytes = 64 << 20 // of all their messages
	pendingTime  = time.Hour
)

// pending are the tasks whose messages are in Cortex's inbox, and not in a log yet. One that is forgotten is looked for in the inbox.
type pending struct {
	mu sync.Mutex
	of recent.Cache[a2a.TaskID, *record]
}

func (p *pending) put(r *record, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.of.Put(r.id, r, int(size)); p.of.Len() > mostPending || p.of.Size() > pendingBytes; p.of.Drop() {
	}
}

// get returns a task that may be in the inbox, or nil.
func (p *pending) get(id a2a.TaskID, now time.Time) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.of.Get(id); ok && now.Sub(r.first().at) < pendingTime {
		return r
	}
	return nil
}

func (p *pending) drop(id a2a.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of.Take(id)
}
