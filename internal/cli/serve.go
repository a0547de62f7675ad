package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/flight"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/roles"
	"github.com/cortex-orchestrator/cortex/internal/traces"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The pause between attempts to reach a server, and between messages about it.
const (
	waitingPause = 250 * time.Millisecond
	waitingTold  = 10 * time.Second
)

// killedEnd bounds how long a service waits for another one on its data folder that may have been killed: the system frees the memory of a process
// before it closes its files, so a large one holds its lock and its ports for some seconds.
const killedEnd = 5 * time.Second

// defaultHTTP is the default address of a service's health checks.
const defaultHTTP = "127.0.0.1:8420"

func (e *env) newServe() *cobra.Command {
	var at openAt
	var beside *roles.Group
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run Cortex as a service",
		Long: `Run the orchestrator until it is interrupted. Agents, chats and other commands on this machine find it by its data
folder; others by --nats with the address given to --listen. The small agents echo, clock and calc run in it, as in a chat:
--agents none leaves them out.

/healthz answers 200 while the process runs, /readyz while it can take and keep work (503 with the reason otherwise). It also
names events that cannot be handled now, says how many were given up, what of the store is damaged, and whether there
are more agents than there may be, or too few open files are allowed. /readyz?verbose shows each check. /metrics is for
Prometheus. At /mcp, other programs have Cortex as a tool: see cortex mcp.

With --a2a, Cortex is an A2A 1.0 server, with JSON-RPC and HTTP+JSON on one port: itself at /, and each agent at /agents/ID/, with a
card at .well-known/agent-card.json of both. Without keys, only programs on this machine may use it; with --auth, a bearer token is
needed: see cortex auth token. Push notifications go to addresses of the public internet, over TLS; --a2a-push-host names hosts that
may be elsewhere. With several replicas one of them sends what all were asked for, so give each of them the same --a2a flags.

A2A agents of others join it that the file of --config lists, with the keys that cortex agent a2a has as flags, or by a URL alone; with
directory in place of url, an entry is a list of agents, a file or a URL:

    a2a_agents:
      - https://agents.example.com/weather
      - url: https://agents.example.com/maps
        prefix: acme.
        credentials: keys.yaml
        refresh: 1m

With --auth and --oidc-issuer, people log in to the console with an identity provider, and speak in their own name, user:NAME. Register the
console there as a client that redirects to its address with /login/callback, which is --console-url behind a proxy. A name is the verified
email address, or the claim of --oidc-user: choose one that nobody can give themselves. A session is over after 12 hours, when its person
logs out, and when an operator ends it on the page System.

At the start the store is checked. What is damaged is set aside, named in the log, and kept in the data folder; the rest works. Run
cortex doctor to see what is lost, and to repair conversations.`,
		Example: "  cortex serve\n  cortex serve --listen 127.0.0.1:4222 --http 127.0.0.1:8420 --log-format json\n  cortex serve --a2a 127.0.0.1:8421\n  cortex serve --nats nats://nats.internal:4222",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.serve(cmd.Context(), &at, beside)
		},
	}
	e.settings.addNode(c, ownAgents...)
	c.Flags().StringVar(&at.http, "http", defaultHTTP, "`ADDRESS`: where the console, /healthz, /readyz and /mcp are served, or none")
	c.Flags().StringVar(&at.pprof, "pprof", none, "`ADDRESS`: where profiles of the process are served, on this machine only, or none")
	c.Flags().BoolVar(&at.flight, "flight-recorder", false, "keep what the process does in the last seconds, and write it to the data folder when a turn takes ten times as long as others")
	c.Flags().StringVar(&at.a2a, "a2a", none, "`ADDRESS`: where Cortex and its agents are served to A2A clients, or none")
	c.Flags().StringVar(&at.grpc, "a2a-grpc", none, "`ADDRESS`: where A2A clients have gRPC, or none")
	c.Flags().BoolVar(&at.old, "a2a-03", false, "serve clients of A2A 0.3 at --a2a as well")
	c.Flags().StringSliceVar(&at.pushTo, "a2a-push-host", nil, "`HOST`: host to which push notifications may go although it is in this network, or has no TLS")
	c.Flags().StringVar(&at.cert, "http-cert", "", "`FILE`: certificate for TLS at --http, --a2a and --a2a-grpc (PEM); a changed file is read again")
	c.Flags().StringVar(&at.key, "http-key", "", "`FILE`: its private key (PEM)")
	setting(c.Flags(), "http", "pprof", "flight-recorder", "a2a", "a2a-grpc", "a2a-03", "a2a-push-host", "http-cert", "http-key")
	group(c.Flags(), groupKeep, "http", "pprof", "flight-recorder", "a2a", "a2a-grpc", "a2a-03", "a2a-push-host", "http-cert", "http-key")
	at.oidc.add(c.Flags())
	beside = e.settings.addRoles(c)
	return c
}

func (e *env) serve(ctx context.Context, at *openAt, beside *roles.Group) error {
	told := e.newServing()
	log := told.log
	open, err := e.openPorts(ctx, at, log)
	if err != nil && ctx.Err() != nil {
		log.Info("cortex has stopped", "err", "interrupted while it waited for a port")
		return nil
	}
	if err != nil {
		return err
	}
	defer open.Close()
	if open.door != nil {
		defer open.door.close(e.settings.data)
	}
	if few := openfiles.Few(); few != "" {
		log.Warn("few files may be open: who only connects can use them up", "advice", few)
	}
	if keys := e.settings.unusedKeys(); keys != "" {
		log.Warn("the keys in "+keys+" are not used: without --auth whoever is on this machine may do everything", "advice", "--auth "+shellWord(keys)+" uses them, and --auth none says that this is meant")
	}
	var n atomic.Pointer[node] // nil until it is ready
	var waits starting
	owned := newOwnership()
	m := e.newMetrics(n.Load, owned)
	spans, err := e.openTraces(ctx, log, n.Load)
	if err != nil {
		return err
	}
	e.settings.node.observers, e.settings.node.meter = []cortex.Observer{m}, m
	if spans != nil {
		defer spans.Close()
		m.TraceOf = traces.ID
		e.settings.node.tracer = spans.Agents()
		e.settings.node.observers = append(e.settings.node.observers, spans)
	}
	g, ctx := errgroup.WithContext(ctx)
	if at.flight {
		recorder := flight.New(filepath.Join(e.settings.data, "flight"), log)
		e.settings.node.observers = append(e.settings.node.observers, recorder)
		g.Go(func() error {
			recorder.Run(ctx)
			return nil
		})
	}
	if len(open.certs.all) > 0 {
		g.Go(func() error {
			open.certs.watch(ctx, log)
			return nil
		})
	}
	if open.http != nil {
		g.Go(func() error {
			handlers := map[string]http.Handler{
				"/mcp": e.mcpHandler(n.Load, &waits), "/metrics": e.metricsHandler(m, n.Load, &waits), "/": e.consoleHandler(open, n.Load, &waits, ctx.Done()),
			}
			return serveHealth(ctx, open, log, n.Load, &waits, owned, handlers)
		})
	}
	if open.pprof != nil {
		g.Go(func() error { return servePprof(ctx, open.pprof, log) })
	}
	if open.a2a != nil {
		g.Go(func() error { return serveA2A(ctx, open, log, e.a2aHandler(open, n.Load, &waits)) })
	}
	g.Go(func() error {
		show := told.event()
		onEvent := func(e registry.Event) {
			m.AgentEvent(string(e.Kind))
			show(e)
		}
		return e.serveNode(ctx, told, &waits, beside, onEvent, func(running *node) {
			n.Store(running)
			open.door.leave(e.settings.data, log)
			if open.count() > 0 {
				running.warnBlind()
			}
			told.ready(running, open)
			if open.http != nil {
				g.Go(func() error {
					owned.watch(ctx, running)
					return nil
				})
			}
			if open.a2a != nil {
				g.Go(func() error { return running.pushA2A(ctx, open) })
			}
			if open.grpc != nil {
				g.Go(func() error { return e.serveGRPC(ctx, open, log, running) })
			}
		})
	})
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()
	return awaitEnd(ctx, n.Load, ended)
}

// Bounds of the end of a service: a server that has given up its store may wait for itself, and one whose disk hangs waits for that. The supervisor of this
// process must be able to restart it, and to learn why it did not end.
const (
	brokenEnd = 10 * time.Second
	hungEnd   = 25 * time.Second // since it was to end; supervisors kill after 30 s, as deploy has it
)

// awaitEnd waits until the service has ended: for brokenEnd when its store is broken, and for hungEnd from the end of ctx.
func awaitEnd(ctx context.Context, running func() *node, ended <-chan error) error {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	var broken, told time.Time
	for {
		select {
		case err := <-ended:
			return err
		case now := <-poll.C:
			n := running()
			switch {
			case n == nil || n.broken.Load() == nil:
			case broken.IsZero():
				broken = now
			case now.Sub(broken) > brokenEnd:
				return *n.broken.Load()
			}
			switch {
			case ctx.Err() == nil:
			case told.IsZero():
				told = now
			case now.Sub(told) > hungEnd:
				return fmt.Errorf("the service did not end within %v, as when the disk hangs, and is given up: nothing that was accepted is lost", hungEnd)
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
func (e *env) serveNode(ctx context.Context, told *serving, waits *starting, beside *roles.Group, onEvent func(registry.Event), ready func(*node)) error {
	n, err := e.settings.claimNode(ctx, told.log, waits, onEvent)
	if err != nil && ctx.Err() != nil {
		told.log.Info("cortex has stopped", "err", oneLine(waits)) // interrupted before it was ready
		return nil
	}
	if err != nil {
		return err
	}
	n.roles = beside
	beside.Start(ctx, n.site)
	n.startPeers(ctx, &e.settings)
	ready(n)
	err = n.Wait(ctx)
	told.stopping()
	if cerr := n.Close(); err == nil {
		err = cerr
	}
	told.stopped(n.orchestrator.Stats())
	return err
}

// isTaken is the error for a data folder on which another service runs.
func (s *settings) isTaken(a datadir.Address) error {
	return fmt.Errorf("another cortex (process %d) runs on %s: join it with `cortex chat`, or choose another folder with --data", a.PID, s.data)
}

// mayEnd is why a service waits for a data folder on which another one runs, or did until it was killed.
func (s *settings) mayEnd(a datadir.Address) error {
	return fmt.Errorf("another cortex (process %d) runs on %s, or was killed and has not ended: this service waits %s for its end", a.PID, s.data, killedEnd)
}

// mayPass is why a service waits for a data folder on which a chat or a question runs.
func (s *settings) mayPass(a datadir.Address) error {
	return fmt.Errorf("a chat or a question (process %d) runs on %s: this service begins when that ends; or choose another folder with --data", a.PID, s.data)
}

// claimNode is startNode for a service, which waits: for an external server, since the two may start in any order and a cluster takes time; for a
// data folder that a chat or a question holds, until that ends; and for one that another service holds, which may have been killed, until killedEnd
// has passed. Then it returns an error.
func (s *settings) claimNode(ctx context.Context, log *slog.Logger, waits *starting, onEvent func(registry.Event)) (*node, error) {
	var told, taken time.Time
	leave := func() {}
	defer func() { leave() }()
	for {
		n, err := s.startNode(ctx, log, onEvent)
		what := "the NATS server"
		if s.transport != "" {
			what = scheme(s.transport)
		}
		switch {
		case errors.Is(err, datadir.ErrLocked):
			a, ok, ferr := datadir.Find(ctx, s.data)
			if ferr != nil {
				return nil, ferr
			}
			service := ok && !a.Passing
			if service && taken.IsZero() {
				taken = time.Now()
			}
			if service && time.Since(taken) > killedEnd {
				return nil, s.isTaken(a)
			}
			if told.IsZero() {
				leave = datadir.Queue(s.data)
			}
			what = "the data folder"
			switch {
			case service:
				err = s.mayEnd(a)
			case ok:
				err = s.mayPass(a)
			default:
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
		if err := rest.For(ctx, waitingPause); err != nil {
			return nil, err
		}
	}
}

// Wait blocks until ctx ends and returns nil, or until a part of the node fails and returns its error.
func (n *node) Wait(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- n.work.wait() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.roles.Failed():
		return err
	case err := <-failed:
		return cmp.Or(err, errors.New("the orchestrator stopped by itself"))
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

// serveHealth answers health checks, and has other handlers by their patterns, until ctx ends.
func serveHealth(ctx context.Context, open *ports, log *slog.Logger, running func() *node, waits error, owned *ownership, handlers map[string]http.Handler) error {
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		mux.Handle(pattern, h)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", briefly(func(w http.ResponseWriter, r *http.Request) {
		n := running()
		if n == nil {
			http.Error(w, oneLine(waits), http.StatusServiceUnavailable)
			return
		}
		if r.URL.Query().Has("verbose") {
			n.verbose(r.Context(), w, open, owned, &n.readiness)
			return
		}
		beside, starting := n.roles.Trouble()
		if err := cmp.Or(n.readiness.ask(r.Context()), owned.lost(time.Now()), starting); err != nil {
			http.Error(w, oneLine(err), http.StatusServiceUnavailable)
			return
		}
		own := n.orchestrator.Owned()
		fmt.Fprintf(w, "ok\nowns %d of %d partitions: %s\n", len(own), transport.Partitions, view.Ranges(own))
		for _, line := range n.troubles(open, beside) {
			fmt.Fprintln(w, line)
		}
	}))
	if err := httpserver.Serve(ctx, open.http, mux, &httpserver.Options{Connections: openfiles.HTTP(open.count()), Body: maxHTTPBody, TLS: open.tls, Logger: log}); err != nil {
		return fmt.Errorf("health endpoint: %w", err)
	}
	return nil
}

// troubles returns a line for each thing that does not keep the node from working, but needs somebody.
func (n *node) troubles(open *ports, beside []string) []string {
	return slices.Concat(n.orchestrator.Trouble(), n.Registry.Trouble(), n.damage(), n.clock.Trouble(), n.guests.trouble(), n.returns.trouble(), n.troubleA2A(open), n.troubleSpend(), n.rules.Trouble(), open.certs.trouble(), open.log.Trouble(), beside, scarce())
}

// scarce returns a line for each resource that the process has too little of.
func scarce() []string {
	if few := openfiles.Few(); few != "" {
		return []string{few}
	}
	return nil
}
