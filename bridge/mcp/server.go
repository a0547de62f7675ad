package mcp

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// DefaultWait is below the time limits of most hosts, the shortest of which is a minute.
const DefaultWait = 45 * time.Second

// Config configures a Server. Client, Store and Agents are required.
type Config struct {
	// Client asks Cortex. Its User is the caller where no token names another. It needs a Log.
	Client *client.Client
	Store  storage.Store // only read
	// Agents returns the cards of the agents that can be given work now.
	Agents  func(context.Context) ([]*a2a.AgentCard, error)
	Version string        // of Cortex
	Wait    time.Duration // how long a call waits for an answer; 0 means DefaultWait
	Logger  *slog.Logger  // nil discards
}

// Server is Cortex as an MCP server. Its methods are safe for concurrent use.
type Server struct {
	cfg   Config
	calls calls
	posts sync.Map // *post of running HTTP requests, by the value of headerPost
	room  *httpserver.Room
	turns *httpserver.Room // for large messages that are decoded
}

// New returns a Server.
func New(cfg Config) *Server {
	cfg.Wait = cmp.Or(max(cfg.Wait, 0), DefaultWait)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Server{cfg: cfg, room: httpserver.NewRoom(mostRead, ownRead), turns: httpserver.NewTurns()}
}

// Serve speaks MCP on in and out until in or ctx ends, and then returns nil, also when nobody reads out. Nothing else is written to out. A read of
// in and a write to out that block go on after it.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	l := newLines(in, out)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, l.giveUp) })()
	err := s.server().Run(ctx, l)
	select {
	case <-l.ended:
		return nil
	default:
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// instructions is what hosts tell their models of Cortex. Every host pays for its words in each prompt.
const instructions = `Cortex gives work to agents: programs and services that joined it. ask says what is wanted, and Cortex chooses the agents; ` +
	`ask_agent names one. When a result has the state "working", call get_turn with its turn_id until it has not. When it is "input_required", ` +
	`ask the user, and give their words to reply.`

// server returns an MCP server with the tools and resources.
func (s *Server) server() *sdk.Server {
	sdkServer := sdk.NewServer(&sdk.Implementation{Name: "cortex", Title: "Cortex", Version: s.cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: quiet(s.cfg.Logger),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		SetCacheable: s.cacheable,
	})
	s.addTools(sdkServer)
	s.addResources(sdkServer)
	return sdkServer
}

// cacheable says how long lists and resources stay as they are. The tools never change; the others are of the caller, and change at any time.
func (s *Server) cacheable(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
	switch req.(type) {
	case *sdk.ListToolsRequest, *sdk.ListResourcesRequest, *sdk.ListResourceTemplatesRequest:
		c.TTLMs, c.CacheScope = int(time.Hour/time.Millisecond), "public"
	case *sdk.ReadResourceRequest:
		c.TTLMs, c.CacheScope = 0, "private"
	}
}

// quiet is a logger for the SDK, which reports what clients do wrong, and the end of each session, as errors.
func quiet(l *slog.Logger) *slog.Logger { return slog.New(atDebug{l.Handler()}) }

type atDebug struct{ slog.Handler }

func (h atDebug) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h atDebug) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h atDebug) WithAttrs(a []slog.Attr) slog.Handler { return atDebug{h.Handler.WithAttrs(a)} }
func (h atDebug) WithGroup(n string) slog.Handler      { return atDebug{h.Handler.WithGroup(n)} }
