package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/agents"
	a2aserver "github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/internal/policyfile"
	"github.com/cortex-orchestrator/cortex/internal/retain"
	"github.com/cortex-orchestrator/cortex/internal/roles"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// node is a running Cortex: the embedded server, if any, and the orchestrator with its registry and built-in agents.
type node struct {
	*link
	*directory.Directory
	orchestrator *cortex.Orchestrator
	templates    *prompt.Templates
	rules        *policyfile.File
	server       home.Server           // nil with --nats
	claim        *datadir.Claim        // likewise
	clock        *retain.Clock         // for deleting by age
	broken       atomic.Pointer[error] // why the server has given up its store, after which the server's end may hang
	keys         string                // folder of the keys, where it is known
	unread       rate.Sometimes        // limits the log of what cannot be read there
	release      func()
	closeLLM     func() error
	log          *slog.Logger
	set          *datadir.Handover // its settings
	roles        *roles.Group      // the program's roles, which a service runs
	guests       *guests           // likewise, A2A agents of others; nil: none
	returns      *returns          // agents that hand back their tasks
	pace         client.Pace
	readiness    readiness
	forA2A       sync.Once
	asA2A        *a2aserver.Server            // nil until it is asked for
	tokens       func() (*auth.Bearer, error) // knows the bearer tokens of its tenant
	earlier      sync.Once                    // for the log line about those that an earlier Cortex has made

	work, agents, watch stage // ended one after the other, in this order: the registry is watched last, which still sees the agents leave
}

// stage is what runs in a node until it is stopped.
type stage struct {
	run  func(part func(context.Context) error) // in a goroutine; its context ends when the stage is stopped, or when a part of the work has failed
	stop context.CancelFunc
	wait func() error
}

// startNode starts the node of this process, and returns when it accepts work. It claims the data folder unless an external server is used; errLocked
// means that another process has it.
func (s *settings) startNode(ctx context.Context, log *slog.Logger, onEvent func(registry.Event)) (_ *node, err error) {
	s.takeOnlyModel(ctx)
	if err := s.checkLLM(); err != nil {
		return nil, err
	}
	wellKnown, err := s.loadWellKnown(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := s.loadPolicy(log)
	if err != nil {
		return nil, err
	}
	kits, err := s.builtin()
	if err != nil {
		return nil, err
	}
	n := newNode(ctx, log)
	n.tokens = sync.OnceValues(s.bearer)
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if err := n.assemble(ctx, s, wellKnown, rules, onEvent); err != nil {
		return nil, err
	}
	if err := n.runRegistry(ctx); err != nil {
		return nil, err
	}
	for _, k := range kits {
		n.agents.run(func(ctx context.Context) error {
			return agents.Serve(ctx, n.bus, k.card, k.executor, &agents.Options{Tenant: s.tenant, Tracer: s.node.tracer, MaxFile: int64(s.node.maxFile), Logger: log})
		})
	}
	if err := n.await(ctx, kits); err != nil {
		return nil, err
	}
	if err := n.runWork(s, rules); err != nil { // not before: events in the inbox may need these agents
		return nil, err
	}
	if err := n.leaveAddress(s); err != nil {
		return nil, err
	}
	return n, nil
}

// newNode returns a node without parts. The parts that run in it end with Close, not with ctx: the orchestrator stops before the agents leave, so that it does
// not answer that there are none.
func newNode(ctx context.Context, log *slog.Logger) *node {
	of := func(together bool) stage {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		g := new(errgroup.Group)
		if together { // when one part fails, the others end, and wait returns the reason
			g, ctx = errgroup.WithContext(ctx)
		}
		return stage{func(part func(context.Context) error) { g.Go(func() error { return part(ctx) }) }, stop, g.Wait}
	}
	n := &node{
		log: log, unread: rate.Sometimes{Interval: time.Minute}, roles: new(roles.Group), release: func() {}, closeLLM: func() error { return nil }, returns: &returns{log: log, now: time.Now},
		work: of(true), agents: of(false), watch: of(false),
	}
	n.readiness.checks = n.readyChecks()
	return n
}

// assemble opens the server or the link to one, the store and the model, and makes the registry and the orchestrator.
func (n *node) assemble(ctx context.Context, s *settings, wellKnown []registry.WellKnown, rules *policyfile.File, onEvent func(registry.Event)) (err error) {
	if n.set, err = s.handover(); err != nil {
		return err
	}
	conn := new(outage)
	if err := n.open(ctx, s, conn.onConn); err != nil {
		return err
	}
	if n.templates, err = prompt.New(s.node.prompts); err != nil {
		return s.wrong("prompts", ": %w", err)
	}
	if s.node.prompts != "" {
		n.set.Templates = n.templates.Sum()
	}
	decider, closeLLM, err := s.openDecider(ctx, n.templates, n.log)
	if err != nil {
		return err
	}
	n.closeLLM = closeLLM
	n.rules = rules
	if err := rules.JudgedBy(decider); err != nil {
		return s.wrong("policy", ": %w", err)
	}
	remembered := "" // only with a claim is the data folder this process's
	if n.claim != nil {
		remembered = retain.ClockFile(s.data)
	}
	n.clock = retain.NewClock(time.Now, retain.NewPassed(), remembered, lastStored(ctx, n.store), time.Duration(s.node.retain), n.log)
	n.Directory = directory.New(registry.Config{
		Tenant: s.tenant, WellKnown: wellKnown, Logger: n.log, OnEvent: onEvent, Announce: true, Leads: n.leads, Keep: n.keeper(),
		StrictAbilities: s.node.strict,
	})
	conn.tell(n.Registry)
	n.orchestrator, err = cortex.New(cortex.Config{
		Transport: n.bus, Store: n.store, Decider: decider, Tenant: s.tenant, Label: processLabel(), TaskTimeout: s.node.taskTimeout, Logger: n.log,
		Authenticated: n.sender != "", DecideTimeout: s.node.llmTimeout, Budget: s.budget, Policy: rules.InForce(),
		Agents: n.Routable, Present: n.Present, Router: n.Index, Shortlist: s.node.shortlist, NoLearning: !s.node.learning,
		Decisions: openfiles.Models(), Observers: s.node.observers,
	})
	if err != nil {
		return err
	}
	n.Tell(n.orchestrator)
	return nil
}

// lastStored returns when a store has stored an entry last; zero if that is unknown.
func lastStored(ctx context.Context, store storage.Store) time.Time {
	dates, ok := store.(storage.Clock)
	if !ok {
		return time.Time{}
	}
	_, last, err := dates.Clock(ctx)
	if err != nil {
		return time.Time{}
	}
	return last.Round(0)
}

// leads reports whether this node does what one replica of a tenant does for all: the owner of the first partition does. Others may have joined an
// embedded server, too; until its node has begun to take work, it is that one.
func (n *node) leads() bool {
	var owned []int
	if n.orchestrator != nil {
		owned = n.orchestrator.Owned()
	}
	return leads(owned, n.server != nil)
}

// leads is node.leads for a node that owns some partitions, nil before it takes work, and may have the server in it.
func leads(owned []int, embedded bool) bool {
	if owned == nil {
		return embedded
	}
	return slices.Contains(owned, 0)
}

// open connects to the external server, or claims the data folder and starts an embedded server.
func (n *node) open(ctx context.Context, s *settings, onConn func(up bool, err error)) error {
	if err := s.checkFiles(); err != nil {
		return err
	}
	if s.transport != "" {
		return n.openOwn(ctx, s, onConn)
	}
	o := &home.Options{
		URL: s.nats, Name: "cortex", Creds: s.creds, Tenant: s.tenant, Logger: n.log, OnConn: onConn,
		Runs: true, Replicas: int(s.node.replicas), MaxFile: int64(s.node.maxFile),
	}
	dial := s.program.Home.Dial
	if s.nats == "" {
		c, err := datadir.Take(ctx, s.data)
		if err != nil {
			return err
		}
		n.claim, n.release = c, c.Release
		if why := datadir.Exposed(s.data); why != "" {
			n.log.Warn("others on this machine may replace or read what is in the data folder", "data", s.data, "why", why, "do", "choose a folder that only you may change with --data")
		}
		if err := s.keepKeys(); err != nil {
			return err
		}
		if err := datadir.MissingStore(s.data, s.folder()); err != nil {
			return err
		}
		if gone := datadir.GoneStore(s.data, s.folder()); gone != "" {
			n.log.Error("the store is lost: an empty one is begun", "what", gone)
		}
		so := &home.ServerOptions{
			Dir: datadir.Store(s.data), Listen: datadir.SameListen(ctx, s.data, s.node.listen), Sync: s.node.sync, Logger: n.log,
			Auth: s.node.auth, TLS: s.tls,
		}
		if n.server, err = startServer(ctx, s.program.Home, so, s.node.listen); err != nil {
			return err
		}
		datadir.MarkStore(s.data, n.log)
		if err := c.KeepStore(ctx); err != nil {
			return err
		}
		dial = n.server.Dial
	} else {
		o.TLS = s.tls // otherwise these are the embedded server's own
	}
	conn, err := dial(ctx, o)
	if err != nil {
		return err
	}
	if n.keys = s.node.auth; n.server == nil {
		n.keys = auth.FolderOf(s.creds, s.tenant)
	}
	url := s.nats
	if n.server != nil {
		url = n.server.URL()
	}
	if who := conn.Who; who.Limited() {
		conn.Bus.Close()
		return fmt.Errorf("%w: the credentials are for %s: to run Cortex, give those of the orchestrator of %s with --creds", transport.ErrForbidden, who, auth.TenantName(s.tenant))
	}
	n.link, err = s.connect(ctx, conn, url, s.store, n.log)
	return err
}

// startServer starts a server; when its address is taken, it uses other.
func startServer(ctx context.Context, b home.Home, o *home.ServerOptions, other string) (home.Server, error) {
	srv, err := b.Start(ctx, o)
	if !errors.Is(err, syscall.EADDRINUSE) || o.Listen == other {
		return srv, err
	}
	o.Listen = other // reusing the previous port is only a convenience, and it was free a moment ago
	return b.Start(ctx, o)
}

// await waits until the built-in agents can be given work, so that a first question finds them.
func (n *node) await(ctx context.Context, kits []kit) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	var broken <-chan error
	if n.server != nil {
		broken = n.server.Broken()
	}
	for {
		online := n.Routable("")
		if !slices.ContainsFunc(kits, func(k kit) bool {
			return !slices.ContainsFunc(online, func(a prompt.Agent) bool { return a.ID == k.card.Name })
		}) {
			return nil
		}
		select {
		case err := <-broken: // no card is stored
			return err
		case <-ctx.Done():
			err := ctx.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				err = cmp.Or(n.healthy(asking), err) // such as an external server that has no room
			}
			return fmt.Errorf("the built-in agents did not come up: %w", err)
		case <-poll.C:
		}
	}
}

// Close ends the node: unfinished work goes back to the inbox, the agents leave, then the server stops. Nothing is lost, since everything important
// is stored already. Close must be called once.
func (n *node) Close() error {
	n.work.stop()
	err := n.work.wait()
	n.agents.stop()
	n.guests.end()
	n.roles.End(n.log) // events of roles are in the inbox; their agents stay until the orchestrator gives no more work
	err = errors.Join(err, n.agents.wait(), n.closeLLM())
	n.watch.stop()
	n.watch.wait() //nolint:errcheck // the work was told
	n.leave()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// leave ends the connection and the server, and gives up the data folder.
func (n *node) leave() {
	if n.link != nil {
		n.link.Close()
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	n.release()
}

// kit is an agent that runs in this process.
type kit struct {
	card     *a2a.AgentCard
	executor agents.Executor
}

// builtin returns the built-in agents that --agents names.
func (s *settings) builtin() ([]kit, error) {
	var kits []kit
	for _, name := range s.node.agents {
		if name = strings.TrimSpace(name); name == "" || name == "none" {
			continue
		}
		card, executor, ok := s.program.lookup(name)
		if !ok {
			return nil, s.wrong("agents", ": there is no built-in agent %q: it is one of %s", name, strings.Join(s.program.builtin(), ", "))
		}
		kits = append(kits, kit{card, executor})
	}
	return kits, nil
}
