package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/internal/garbage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

const (
	startTimeout = 30 * time.Second
	// agentConcurrency is high enough that an agent is never busy: the measurement is about Cortex.
	agentConcurrency = 1024
)

// nodeConfig configures a node; only dir is required.
type nodeConfig struct {
	dir     string               // its data folder, with the layout of `cortex serve`
	tcp     bool                 // users and agents connect over TCP
	workers int                  // number of agents that echo their tasks, see workerID
	decider llm.Decider          // nil is the fake
	timeout time.Duration        // of tasks; 0 is Cortex's default
	onEvent func(registry.Event) // nil: not called

	// Tests make the connections of users and of the orchestrator fail.
	userBus, cortexBus func(transport.Transport) transport.Transport
}

// node is a Cortex wired as by `cortex serve`, with agents and connections for users, all in this process.
type node struct {
	*directory.Directory
	server *nats.Server
	store  *jetstore.Store
	log    func(context.Context, client.Turn) (*a2a.Message, bool, error) // of store
	orch   *cortex.Orchestrator

	bus, userBus, agentBus *nats.Bus // one connection for each of the three sides
	users, cortex          transport.Transport
	agents                 []string // ids of the workers

	ctx    context.Context // ends when the node does, or a part of it fails
	stop   context.CancelCauseFunc
	stages [3]stage // in the order in which they end: see orchestrating
}

// The stages of a node.
const (
	orchestrating = iota
	working
	watching
)

// stage has the parts of a node that end together.
type stage struct {
	errgroup.Group
	ctx context.Context
	end context.CancelFunc
}

// newNode returns a node without parts, which end with Close, one after the other, not with ctx.
func newNode(ctx context.Context) *node {
	n := new(node)
	n.ctx, n.stop = context.WithCancelCause(ctx)
	for i := range n.stages {
		n.stages[i].ctx, n.stages[i].end = context.WithCancel(context.WithoutCancel(ctx))
	}
	return n
}

// startNode starts a node and returns when it accepts work. The caller ends it with Close.
func startNode(ctx context.Context, cfg nodeConfig) (_ *node, err error) {
	n := newNode(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := n.connect(ctx, cfg); err != nil {
		return nil, err
	}
	if n.store, err = jetstore.Open(ctx, n.bus.Conn(), nil); err != nil {
		return nil, err
	}
	if cfg.decider == nil {
		cfg.decider = fake.New(nil)
	}
	n.log = client.ReadLog(n.store, "")
	n.Directory = directory.New(registry.Config{OnEvent: cfg.onEvent, Announce: true, Keep: directory.Keeper{Notes: n.store}})
	n.orch, err = cortex.New(cortex.Config{
		Transport: n.cortex, Store: n.store, Decider: cfg.decider, Agents: n.Routable, Present: n.Present, Router: n.Index, Label: "bench",
		TaskTimeout: cfg.timeout,
	})
	if err != nil {
		return nil, err
	}
	n.Tell(n.orch)
	watch := &n.stages[watching]
	watch.Go(func() error {
		garbage.Gather(watch.ctx)
		return nil
	})
	n.run(watching, func(ctx context.Context) error { return n.Registry.Run(ctx, n.bus) })
	for i := range cfg.workers {
		card, handler, _ := agents.Lookup("echo")
		card.Name = workerID(i)
		n.agents = append(n.agents, card.Name)
		n.run(working, func(ctx context.Context) error {
			return agents.Serve(ctx, n.agentBus, card, handler, &agents.Options{Concurrency: agentConcurrency})
		})
	}
	up := func(context.Context) (bool, error) { return len(n.Routable("")) >= cfg.workers, nil }
	if err := n.await(startTimeout, "the agents did not come up", up); err != nil {
		return nil, err
	}
	n.run(orchestrating, n.orch.Run) // earlier messages wait in its inbox
	return n, nil
}

// workerID returns the id of the agent with this number.
func workerID(i int) string { return fmt.Sprintf("worker_%d", i+1) }

// connect starts the server and connects the three sides.
func (n *node) connect(ctx context.Context, cfg nodeConfig) (err error) {
	o := &nats.ServerOptions{Dir: filepath.Join(cfg.dir, "nats"), Listen: "127.0.0.1:0"}
	if n.server, err = nats.StartServer(ctx, o); err != nil {
		return err
	}
	near, far := nats.Options{Server: n.server}, nats.Options{Server: n.server}
	if cfg.tcp {
		far = nats.Options{URL: n.server.URL()}
	}
	for _, side := range []struct {
		bus **nats.Bus
		o   nats.Options
	}{{&n.bus, near}, {&n.userBus, far}, {&n.agentBus, far}} {
		if *side.bus, err = nats.Dial(ctx, &side.o); err != nil {
			return err
		}
	}
	n.users, n.cortex = n.userBus, n.bus
	if cfg.userBus != nil {
		n.users = cfg.userBus(n.users)
	}
	if cfg.cortexBus != nil {
		n.cortex = cfg.cortexBus(n.cortex)
	}
	return nil
}

// run runs a part of the node; when the part ends by itself, the node ends.
func (n *node) run(stage int, f func(context.Context) error) {
	s := &n.stages[stage]
	s.Go(func() error {
		err := f(s.ctx)
		if s.ctx.Err() != nil {
			return nil
		}
		err = cmp.Or(err, errors.New("a part of Cortex stopped by itself"))
		n.stop(err)
		return err
	})
}

// pollEvery is the interval of polling.
const pollEvery = 5 * time.Millisecond

// await polls done until it returns true. After limit it returns an error that begins with what.
func (n *node) await(limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	defer cancel()
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if rest.For(ctx, pollEvery) != nil {
			if n.ctx.Err() != nil {
				return context.Cause(n.ctx)
			}
			return fmt.Errorf("%s within %v: %w", what, limit, errors.Join(errLate, err))
		}
	}
}

// errLate is the error of a wait that took too long.
var errLate = errors.New("it took too long")

// Close ends the node: the orchestrator, then the agents, then the registry, then the server. Stored data stays.
func (n *node) Close() (err error) {
	for i := range n.stages {
		n.stages[i].end()
		err = errors.Join(err, n.stages[i].Wait())
	}
	n.stop(nil)
	for _, b := range n.buses() {
		err = errors.Join(err, b.Close())
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	return err
}

// buses returns the node's connections.
func (n *node) buses() []*nats.Bus {
	all := []*nats.Bus{n.bus, n.userBus, n.agentBus}
	return slices.DeleteFunc(all, func(b *nats.Bus) bool { return b == nil })
}

// settle waits a bounded time until all inboxes are empty.
func (n *node) settle() error {
	// An event may move from an agent's inbox to the orchestrator's during the check.
	inboxes := slices.Concat([]string{transport.Cortex}, n.agents, []string{transport.Cortex})
	return n.await(defaultWait, "the inboxes are not empty", func(ctx context.Context) (bool, error) {
		for _, id := range inboxes {
			if waiting, err := n.bus.Waiting(ctx, transport.Inbox("", id)); err != nil || waiting > 0 {
				return false, err
			}
		}
		return true, nil
	})
}

// stored returns how many messages the server has stored in its streams since its creation.
func (n *node) stored(ctx context.Context) (uint64, error) {
	js, err := jetstream.New(n.bus.Conn())
	if err != nil {
		return 0, err
	}
	var sum uint64
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		sum += info.State.LastSeq
	}
	return sum, list.Err()
}
