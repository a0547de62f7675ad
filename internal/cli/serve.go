package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func (e *env) newServe() *cobra.Command {
	var addr string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run Cortex as a service",
		Long: `Run the orchestrator until it is interrupted. Agents, chats and other commands on this machine find it by its data
folder; others by --nats with the address given to --listen.

/healthz answers 200 while the process runs, /readyz while it can take and keep work (503 with the reason otherwise).`,
		Example: "  cortex serve\n  cortex serve --listen 127.0.0.1:4222 --http 127.0.0.1:8420 --log-format json\n  cortex serve --nats nats://nats.internal:4222",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.serve(cmd.Context(), addr)
		},
	}
	e.settings.addNode(c)
	c.Flags().StringVar(&addr, "http", "127.0.0.1:8420", "`ADDRESS` for /healthz and /readyz; none for none")
	return c
}

func (e *env) serve(ctx context.Context, addr string) error {
	log := e.settings.logger(e.stderr, slog.LevelInfo)
	var health net.Listener
	if addr != "" && addr != "none" {
		var err error
		if health, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("--http %s: the port is in use: choose another, or none", addr)
		} else if err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		defer health.Close()
	}
	n, err := e.settings.claimNode(ctx, log, logChange(log))
	if err != nil {
		return err
	}
	log.Info("cortex is ready", "url", n.url, "data", e.settings.data, "llm", e.settings.describeLLM(), "agents", len(routable(n.registry)), "version", buildVersion())

	g, gctx := errgroup.WithContext(ctx)
	if health != nil {
		log.Info("health endpoint", "url", "http://"+health.Addr().String()+"/readyz")
		g.Go(func() error { return serveHealth(gctx, health, n) })
	}
	g.Go(func() error { return n.Wait(gctx) })
	err = g.Wait()
	log.Info("cortex is stopping")
	if cerr := n.Close(); err == nil {
		err = cerr
	}
	stats := n.orchestrator.Stats()
	log.Info("cortex has stopped", "entries", stats.Entries, "decisions", stats.Decisions, "tasks", stats.Tasks, "ignored", stats.Ignored, "refused", stats.Refused)
	return err
}

// claimNode is startNode with a clear error when another process has the data folder.
func (s *settings) claimNode(ctx context.Context, log *slog.Logger, onChange func(registry.Change)) (*node, error) {
	n, err := s.startNode(ctx, log, onChange)
	if errors.Is(err, errLocked) {
		a, _, _ := findAddress(ctx, s.data)
		return nil, fmt.Errorf("another cortex (process %d) runs on %s: join it with `cortex chat`, or choose another folder with --data", a.PID, s.data)
	}
	return n, err
}

// Wait blocks until ctx ends, then returns nil, or until a part of the node fails.
func (n *node) Wait(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- n.work.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if err == nil {
			err = errors.New("the orchestrator stopped by itself")
		}
		return err
	}
}

// logChange logs what happens to agents. total counts those that are online.
func logChange(log *slog.Logger) func(registry.Change) {
	online := map[string]bool{}
	return func(c registry.Change) {
		log.Info("received agent card event", "agent_id", c.AgentID, "event_type", string(c.Kind))
		if c.Record.State == registry.StateActive {
			online[c.AgentID] = true
		} else {
			delete(online, c.AgentID)
		}
		switch c.Kind {
		case registry.ChangeJoined, registry.ChangeUpdated:
			skills := make([]string, len(c.Record.Card.Skills))
			for i, s := range c.Record.Card.Skills {
				skills[i] = prompt.Clean(s.Name+": "+s.Description, 200)
			}
			log.Info("agent skills registered", "agent_id", c.AgentID, "skills", skills)
			log.Info("agent registered with cortex orchestrator", "agent_id", c.AgentID, "total_agents", len(online))
		case registry.ChangeLeft, registry.ChangeExpired:
			log.Info("agent gone", "agent_id", c.AgentID, "reason", string(c.Kind), "total_agents", len(online))
		case registry.ChangeConflict:
			log.Warn("two agents announce different cards under one id: the newer card is used", "agent_id", c.AgentID, "instance", c.Instance)
		}
	}
}

// serveHealth answers health checks until ctx ends.
func serveHealth(ctx context.Context, l net.Listener, n *node) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := n.ready(ctx); err != nil {
			http.Error(w, oneLine(err), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("health endpoint: %w", err)
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err := s.Shutdown(stop)
		<-done
		return err
	}
}

// ready returns why the node cannot take and keep work now, or nil.
func (n *node) ready(ctx context.Context) error {
	if err := n.bus.Healthy(ctx); err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	for _, err := range n.store.Load(ctx, n.tenant, "readyz", 0) { // nobody's conversation: the answer is empty, but it is one
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil
}
