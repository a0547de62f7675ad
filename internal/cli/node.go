package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// link is a connection to a Cortex: its bus and its store. A node has one too.
type link struct {
	bus   *nats.Bus
	store *jetstore.Store
	url   string // where others can reach the same bus

	tenant string
}

func (l *link) Close() { l.bus.Close() }

// join connects to a running server, by --nats or by what a node left in the data folder. It returns nil when none runs.
// onConn, unless nil, is told when the connection is lost and made again.
func (s *settings) join(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	url := s.nats
	if url == "" {
		a, ok, err := findAddress(ctx, s.data)
		if err != nil || !ok {
			return nil, err
		}
		url = a.URL
		if s.node.wellKnown == "" {
			s.node.wellKnown = a.WellKnown
		}
	}
	bus, err := nats.Dial(ctx, &nats.Options{URL: url, Name: name, Logger: log, OnConn: onConn})
	if err != nil {
		return nil, err
	}
	return newLink(ctx, bus, url, s.tenant, log)
}

// mustJoin is join for commands that are of no use alone.
func (s *settings) mustJoin(ctx context.Context, name string, log *slog.Logger, onConn func(up bool, err error)) (*link, error) {
	l, err := s.join(ctx, name, log, onConn)
	if err == nil && l == nil {
		err = fmt.Errorf("no cortex runs on %s: start one with `cortex chat` or `cortex serve`, or name its server with --nats", s.data)
	}
	return l, err
}

func newLink(ctx context.Context, bus *nats.Bus, url, tenant string, log *slog.Logger) (*link, error) {
	store, err := jetstore.Open(ctx, bus.Conn(), &jetstore.Options{Logger: log})
	if err != nil {
		bus.Close()
		return nil, err
	}
	return &link{bus, store, url, tenant}, nil
}

// node is a running Cortex: the server, when it is embedded, and the orchestrator with its registry and built-in agents.
type node struct {
	*link
	registry     *registry.Registry
	orchestrator *cortex.Orchestrator
	server       *nats.Server // nil with --nats
	release      func()
	closeLLM     func() error
	log          *slog.Logger

	work, agents *errgroup.Group // ended one after the other: work first
	stopWork     context.CancelFunc
	stopAgents   context.CancelFunc
}

// startNode starts everything that this process is to run, and returns once work is taken. The data folder is claimed
// unless an external server is used; then errLocked says that another process has it.
func (s *settings) startNode(ctx context.Context, log *slog.Logger, onChange func(registry.Change)) (_ *node, err error) {
	n := &node{log: log, release: func() {}, closeLLM: func() error { return nil }, work: new(errgroup.Group), agents: new(errgroup.Group)}
	if err := s.checkLLM(); err != nil {
		return nil, err
	}
	wellKnown, err := s.loadWellKnown()
	if err != nil {
		return nil, err
	}
	kits, err := s.builtin()
	if err != nil {
		return nil, err
	}
	n.stopWork, n.stopAgents = func() {}, func() {}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if err := n.open(ctx, s); err != nil {
		return nil, err
	}
	decider, closeLLM, err := s.openDecider(ctx, log)
	if err != nil {
		return nil, err
	}
	n.closeLLM = closeLLM
	n.registry = registry.New(registry.Config{Tenant: s.tenant, WellKnown: wellKnown, Logger: log, OnChange: onChange})
	n.orchestrator, err = cortex.New(cortex.Config{
		Transport: n.bus, Store: n.store, Decider: decider, Tenant: s.tenant, TaskTimeout: s.node.taskTimeout, Logger: log,
		DecideTimeout: s.node.llmTimeout, Budget: s.budget,
		Agents: func(string) []prompt.Agent { return routable(n.registry) },
	})
	if err != nil {
		return nil, err
	}

	// What runs ends with Close, not with ctx: the orchestrator stops before the agents leave, so that nobody is told that
	// there are none.
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	n.work, workCtx = errgroup.WithContext(workCtx) // when one part fails, the others end, and Wait says why
	agentsCtx, stopAgents := context.WithCancel(context.WithoutCancel(ctx))
	n.stopWork, n.stopAgents = stopWork, stopAgents
	n.work.Go(func() error {
		return persist(workCtx, func(ctx context.Context) error { return n.registry.Run(ctx, n.bus) })
	})
	select {
	case <-n.registry.Synced():
	case <-time.After(syncTimeout):
		return nil, fmt.Errorf("the list of agents did not arrive within %v: is the NATS server overloaded?", syncTimeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, k := range kits {
		n.agents.Go(func() error {
			return agents.Serve(agentsCtx, n.bus, k.card, k.handler, &agents.Options{Tenant: s.tenant, Logger: log})
		})
	}
	if err := n.await(ctx, kits); err != nil {
		return nil, err
	}
	// Only now: what waits in the inbox may be for these agents.
	n.work.Go(func() error { return persist(workCtx, n.orchestrator.Run) })
	n.work.Go(func() error { return announce(workCtx, n.bus, s.tenant) })
	if n.server != nil && n.server.URL() != "" {
		if err := leaveAddress(s.data, address{n.server.URL(), os.Getpid(), s.node.passing, s.node.wellKnown, s.describeLLM(), s.deciding()}); err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
		keepPort(s.data, n.server.URL())
	}
	return n, nil
}

// open connects to the external server, or claims the data folder and starts an embedded one.
func (n *node) open(ctx context.Context, s *settings) error {
	o := &nats.Options{URL: s.nats, Name: "cortex", Logger: n.log}
	if s.nats == "" {
		release, err := claim(s.data)
		if err != nil {
			return err
		}
		n.release = release
		n.server, err = nats.StartServer(ctx, &nats.ServerOptions{
			Dir: filepath.Join(s.data, "nats"), Listen: sameListen(ctx, s.data, s.node.listen), Sync: s.node.sync, Logger: n.log,
		})
		if err != nil {
			return err
		}
		o.Server = n.server
	}
	bus, err := nats.Dial(ctx, o)
	if err != nil {
		return err
	}
	url := s.nats
	if n.server != nil {
		url = n.server.URL()
	}
	n.link, err = newLink(ctx, bus, url, s.tenant, n.log)
	return err
}

// await waits until the built-in agents can be given work, so that a first question finds them.
func (n *node) await(ctx context.Context, kits []kit) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		online := routable(n.registry)
		if !slices.ContainsFunc(kits, func(k kit) bool {
			return !slices.ContainsFunc(online, func(a prompt.Agent) bool { return a.ID == k.card.Name })
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the built-in agents did not come up: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

// Close ends the node: work in progress goes back to the inbox, the agents leave, then the server stops. It is for one
// call; everything of importance is stored already.
func (n *node) Close() error {
	n.stopWork()
	err := n.work.Wait()
	n.stopAgents()
	err = errors.Join(err, n.agents.Wait(), n.closeLLM())
	if n.link != nil {
		n.link.Close()
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	n.release()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// routable returns the agents that may be given work, as a prompt shows them.
func routable(r *registry.Registry) []prompt.Agent {
	records := r.Snapshot().Routable()
	list := make([]prompt.Agent, len(records))
	for i, rec := range records {
		list[i] = prompt.Agent{ID: rec.ID, Card: rec.Card, Seen: !rec.LastSeen.IsZero()}
	}
	return list
}

// kit is an agent that runs in this process.
type kit struct {
	card    *a2a.AgentCard
	handler agents.Handler
}

// builtin returns the built-in agents that --agents names.
func (s *settings) builtin() ([]kit, error) {
	var kits []kit
	for _, name := range s.node.agents {
		if name = strings.TrimSpace(name); name == "" || name == "none" {
			continue
		}
		card, handler, ok := agents.Lookup(name)
		if !ok {
			return nil, usagef("--agents: there is no built-in agent %q: it is one of %s", name, strings.Join(agents.Builtin(), ", "))
		}
		kits = append(kits, kit{card, handler})
	}
	return kits, nil
}
