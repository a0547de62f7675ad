package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// slowServer is how long servers may take to start before the user is told what is waited for: npx may have to download one.
const slowServer = 2 * time.Second

// mcpStarts decides what becomes of the MCP servers of a command that do not start: they are tried again beside one that has started, and when none
// has, that is the command's error. It is safe for concurrent use.
type mcpStarts struct {
	one  chan struct{} // closed when a server has started
	none chan struct{} // closed when all have failed before

	mu    sync.Mutex
	left  int // that have neither started nor failed
	first error
	up    bool
}

func newMCPStarts(servers int) *mcpStarts {
	return &mcpStarts{one: make(chan struct{}), none: make(chan struct{}), left: servers}
}

func (m *mcpStarts) started() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; !m.up {
		m.up = true
		close(m.one)
	}
}

// failed waits until it is known whether the server is tried again, for which it returns nil. It is called once for each server that does not start at first.
func (m *mcpStarts) failed(ctx context.Context, err error) error {
	m.mu.Lock()
	m.first = cmp.Or(m.first, err)
	if m.left--; m.left == 0 && !m.up {
		close(m.none)
	}
	m.mu.Unlock()
	select {
	case <-m.one:
		return nil
	case <-m.none:
		return m.first
	case <-ctx.Done():
		return nil
	}
}

// mcpServer is an MCP server of a command, which joins as an agent by a connection of its own.
type mcpServer struct {
	*mcp.Server
	env    *env
	log    *slog.Logger
	starts *mcpStarts
	flags  agentFlags
}

// run starts the server and serves its agent until ctx ends. It tries again with growing pauses until the server starts, if another one has started.
func (s *mcpServer) run(ctx context.Context) error {
	slow := time.AfterFunc(slowServer, func() { s.env.speaker()("waiting for the MCP server %s to start", prompt.Clean(s.Name, 64)) })
	a, err := s.open(ctx)
	slow.Stop()
	if err == nil {
		s.starts.started()
		return s.serve(ctx, a)
	}
	if ctx.Err() != nil {
		return nil // the user interrupted it
	}
	if err := s.starts.failed(ctx, err); err != nil {
		return err
	}
	if ctx.Err() == nil {
		s.log.Warn("MCP server does not start, and is tried again: it joins the others when what is wrong is mended", "server", s.Name, "err", err)
	}
	for restarts := process.NewRestarts(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restarts.Pause(0)):
		}
		if a, err = s.open(ctx); err == nil {
			return s.serve(ctx, a)
		}
	}
}

// open starts the server.
func (s *mcpServer) open(ctx context.Context) (*mcp.Agent, error) {
	return mcp.Open(ctx, s.Server, &mcp.Options{Dir: s.env.mcpDir(), Version: buildVersion(), Logger: s.log})
}

// serve serves the server's agent, and ends the server.
func (s *mcpServer) serve(ctx context.Context, a *mcp.Agent) error {
	defer a.Close() // an error loses nothing: entries of its journal were written as they came
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return a.Run(ctx) })
	running.Go(func() error {
		err := s.env.runAgent(ctx, a.Card(), newWorklog(a, prompt.Clean(a.Card().Name, 64), s.env.speaker()), &s.flags)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the agent has ended")
		}
		return err
	})
	return running.Wait()
}
