package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The pause between attempts to reach a server, and between messages about it.
const (
	waitingPause = 250 * time.Millisecond
	waitingTold  = 10 * time.Second
)

// defaultHTTP is the default address of a service's health checks.
const defaultHTTP = "127.0.0.1:8420"

func (e *env) newServe() *cobra.Command {
	var addr string
	var roles *besides
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run Cortex as a service",
		Long: `Run the orchestrator until it is interrupted. Agents, chats and other commands on this machine find it by its data
folder; others by --nats with the address given to --listen. The small agents echo, clock and calc run in it, as in a chat:
--agents none leaves them out.

/healthz answers 200 while the process runs, /readyz while it can take and keep work (503 with the reason otherwise). It also
names events that cannot be handled now, says how many were given up, what of the store is damaged, and whether there
are more agents than there may be, or too few files.

At the start the store is checked. What is damaged is set aside, named in the log, and kept in the data folder; the rest works. Run
cortex doctor to see what is lost, and to repair conversations.`,
		Example: "  cortex serve\n  cortex serve --listen 127.0.0.1:4222 --http 127.0.0.1:8420 --log-format json\n  cortex serve --nats nats://nats.internal:4222",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.serve(cmd.Context(), addr, roles)
		},
	}
	e.settings.addNode(c, ownAgents...)
	c.Flags().StringVar(&addr, "http", defaultHTTP, "`ADDRESS`: where /healthz and /readyz are served, or none")
	setting(c.Flags(), "http")
	group(c.Flags(), groupKeep, "http")
	roles = e.settings.addRoles(c)
	return c
}

func (e *env) serve(ctx context.Context, addr string, roles *besides) error {
	log := e.settings.logger(e.stderr, slog.LevelInfo)
	if addr != "none" && !isAddress(addr) {
		return e.settings.wrong("http", " %q: want host:port, such as 127.0.0.1:8420, or none", addr)
	}
	if few := openfiles.Few(); few != "" {
		log.Warn("few files may be open: who only connects can use them up", "advice", few)
	}
	var health net.Listener
	if addr != "none" {
		var err error
		if health, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); errors.Is(err, syscall.EADDRINUSE) {
			if a, ok, err := findAddress(ctx, e.settings.data); err == nil && ok && !a.Passing {
				return e.settings.isTaken(a)
			}
			return fmt.Errorf("--http %s: the port is in use: choose another, or none", addr)
		} else if err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		defer health.Close()
	}
	var n atomic.Pointer[node] // nil until it is ready
	var waits starting
	owned := newOwnership()
	g, ctx := errgroup.WithContext(ctx)
	if health != nil {
		g.Go(func() error { return serveHealth(ctx, health, log, n.Load, &waits, owned) })
	}
	g.Go(func() error {
		return e.serveNode(ctx, log, &waits, roles, func(running *node) {
			n.Store(running)
			if health != nil {
				log.Info("health endpoint", "url", "http://"+health.Addr().String()+"/readyz")
				g.Go(func() error {
					owned.watch(ctx, running)
					return nil
				})
			}
		})
	})
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()
	return outliveBroken(n.Load, ended)
}

// brokenEnd bounds the end of a node whose server has given up its store: such a server may deadlock, and the supervisor of this process must be able
// to restart it.
const brokenEnd = 10 * time.Second

// outliveBroken waits until the service has ended, but only for brokenEnd when its store is broken.
func outliveBroken(running func() *node, ended <-chan error) error {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	var since time.Time
	for {
		select {
		case err := <-ended:
			return err
		case now := <-poll.C:
			n := running()
			switch {
			case n == nil || n.broken.Load() == nil:
			case since.IsZero():
				since = now
			case now.Sub(since) > brokenEnd:
				return *n.broken.Load()
			}
		}
	}
}

// starting is why a service is not ready yet.
type starting struct{ why atomic.Pointer[string] }

// Error implements error, for the readiness check.
func (s *starting) Error() string {
	if why := s.why.Load(); why != nil {
		return "it is starting, and waits for " + *why
	}
	return "it is starting"
}

// serveNode runs a node, with the roles beside it, until ctx ends, and calls ready when it accepts work.
func (e *env) serveNode(ctx context.Context, log *slog.Logger, waits *starting, roles *besides, ready func(*node)) error {
	n, err := e.settings.claimNode(ctx, log, waits, logEvent(log))
	if err != nil && ctx.Err() != nil {
		log.Info("cortex has stopped", "err", oneLine(waits)) // interrupted before it was ready
		return nil
	}
	if err != nil {
		return err
	}
	log.Info("cortex is ready", "url", n.url, "data", e.settings.data, "llm", e.settings.describeLLM(), "agents", len(n.Routable("")), "version", buildVersion())
	n.roles = roles
	roles.start(ctx, n)
	ready(n)
	err = n.Wait(ctx)
	log.Info("cortex is stopping")
	if cerr := n.Close(); err == nil {
		err = cerr
	}
	stats := n.orchestrator.Stats()
	log.Info("cortex has stopped", "entries", stats.Entries, "decisions", stats.Decisions, "tasks", stats.Tasks, "retries", stats.Retries, "ignored", stats.Ignored, "refused", stats.Refused)
	return err
}

// isTaken is the error for a data folder on which another service runs.
func (s *settings) isTaken(a address) error {
	return fmt.Errorf("another cortex (process %d) runs on %s: join it with `cortex chat`, or choose another folder with --data", a.PID, s.data)
}

// claimNode is startNode for a service, which waits: for an external server, since the two may start in any order and a cluster takes time; and for a
// data folder that a chat or a question holds, until that ends. It returns an error when another service holds the folder.
func (s *settings) claimNode(ctx context.Context, log *slog.Logger, waits *starting, onEvent func(registry.Event)) (*node, error) {
	var told time.Time
	leave := func() {}
	defer func() { leave() }()
	for {
		n, err := s.startNode(ctx, log, onEvent)
		what := "the NATS server"
		if s.transport != "" {
			what = scheme(s.transport)
		}
		switch {
		case errors.Is(err, errLocked):
			a, ok, ferr := findAddress(ctx, s.data)
			if ferr != nil {
				return nil, ferr
			}
			if ok && !a.Passing {
				return nil, s.isTaken(a)
			}
			if told.IsZero() {
				leave = queue(s.data)
			}
			what, err = "the data folder", fmt.Errorf("a chat or a question (process %d) runs on %s", a.PID, s.data)
			if !ok {
				err = fmt.Errorf("a process that ran on %s ends", s.data)
			}
		case !s.remote() || !errors.Is(err, transport.ErrUnavailable) || ctx.Err() != nil:
			return n, err
		}
		why := oneLine(err)
		full := what + ": " + why
		waits.why.Store(&full)
		if time.Since(told) > waitingTold {
			told = time.Now()
			log.Warn("waiting for "+what, "err", why)
		}
		if err := rest(ctx, waitingPause); err != nil {
			return nil, err
		}
	}
}

// Wait blocks until ctx ends and returns nil, or until a part of the node fails and returns its error.
func (n *node) Wait(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- n.work.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.roles.failed:
		return err
	case err := <-failed:
		if err == nil {
			err = errors.New("the orchestrator stopped by itself")
		}
		return err
	}
}

// logEvent returns a function that logs events of agents. total is the number of agents online.
func logEvent(log *slog.Logger) func(registry.Event) {
	online := map[string]bool{}
	return func(e registry.Event) {
		log.Info("received agent card event", "agent_id", e.AgentID, "event_type", string(e.Kind))
		if e.Record.State == registry.StateActive {
			online[e.AgentID] = true
		} else {
			delete(online, e.AgentID)
		}
		switch e.Kind {
		case registry.EventRegistered, registry.EventUpdated:
			skills := make([]string, len(e.Record.Card.Skills))
			for i, s := range e.Record.Card.Skills {
				skills[i] = prompt.Clean(s.Name+": "+s.Description, 200)
			}
			log.Info("agent skills registered", "agent_id", e.AgentID, "skills", skills)
			log.Info("agent registered with cortex orchestrator", "agent_id", e.AgentID, "total_agents", len(online))
		case registry.EventDeregistered:
			log.Info("agent gone", "agent_id", e.AgentID, "reason", e.Reason, "total_agents", len(online))
		case registry.EventJoined, registry.EventLeft:
			log.Info("agent instances", "agent_id", e.AgentID, "instance", e.Instance, "reason", e.Reason, "instances", len(e.Record.Instances))
		case registry.EventRefused:
			log.Warn("agent is given no work", "agent_id", e.AgentID, "reason", prompt.Clean(e.Reason, 300))
		case registry.EventConflict:
			log.Warn("two agents announce different cards under one id: the newer card is used", "agent_id", e.AgentID, "instance", e.Instance)
		}
	}
}

// serveHealth answers health checks until ctx ends.
func serveHealth(ctx context.Context, l net.Listener, log *slog.Logger, running func() *node, waits error, owned *ownership) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		n := running()
		if n == nil {
			http.Error(w, oneLine(waits), http.StatusServiceUnavailable)
			return
		}
		beside, starting := n.roles.trouble()
		if err := cmp.Or(n.ready(ctx), owned.lost(time.Now()), starting); err != nil {
			http.Error(w, oneLine(err), http.StatusServiceUnavailable)
			return
		}
		own := n.orchestrator.Owned()
		fmt.Fprintf(w, "ok\nowns %d of %d partitions: %s\n", len(own), transport.Partitions, ranges(own))
		for _, line := range slices.Concat(n.orchestrator.Trouble(), n.Registry.Trouble(), n.damage(), n.clock.trouble(), beside, scarce()) {
			fmt.Fprintln(w, line)
		}
	})
	if err := httpserver.Serve(ctx, l, mux, &httpserver.Options{Connections: openfiles.HTTP(1), Logger: log}); err != nil {
		return fmt.Errorf("health endpoint: %w", err)
	}
	return nil
}

// scarce returns a line for each resource that the process has too little of.
func scarce() []string {
	if few := openfiles.Few(); few != "" {
		return []string{few}
	}
	return nil
}

// ready returns why the node cannot accept and store work now, or nil.
func (n *node) ready(ctx context.Context) error {
	if err := n.healthy(ctx); err != nil {
		return err
	}
	if n.server != nil {
		if serious, err := n.server.Missing(); serious {
			return err
		}
	}
	if n.orchestrator.Owned() == nil {
		return errors.New("it has not begun to take work")
	}
	for _, err := range n.store.Load(ctx, n.tenant, "readyz", 0) { // no such conversation: the result is empty, but it is a result
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil
}
