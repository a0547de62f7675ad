package agenthub

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// hostName is the id of the host of AgentHub's agents.
const hostName = "agenthub"

// atOnce is how many tasks an agent works on at a time. The programs themselves have no limit.
const atOnce = 32

// line is how the programs of AgentHub are reached: directly by a hub, or by way of their broker.
type line interface {
	// give gives a task to the agent of that name, and waits until that is possible. lost is closed when the agent may have lost it; nil: never.
	give(ctx context.Context, t *hubpb.Task, agent string) (lost <-chan struct{}, err error)
	// cancel tells the agent that a task is canceled. It does not wait.
	cancel(t *hubpb.Task, agent, reason string)
	// answer says something to whoever has begun a chat, and waits until that is possible. It calls sent when that is about to happen, and returns who
	// got it.
	answer(ctx context.Context, c *chat, r *reply, sent func()) (receipt, error)
	// agent tells of a change in Cortex's directory. It does not wait long.
	agent(e *transport.AgentEvent)
}

// times are the times that matter, which tests shorten.
type times struct {
	grace       time.Duration // that an agent is present without a stream
	registered  time.Duration // that a registration is good for without a stream
	artifact    time.Duration // that a completed task waits for its artifact
	answer      time.Duration // after which who asks is told that it takes longer; programs wait for 30 s
	undelivered time.Duration // that an answer waits for who has asked
	open        time.Duration // that a turn may take
	behind      time.Duration // that a sender waits for a slow subscriber
	behindAll   time.Duration // likewise, who tells all: one of many does not hold that up
}

// usual are the times in production.
var usual = times{
	grace: 30 * time.Second, registered: time.Minute, artifact: 2 * time.Second, answer: 25 * time.Second, undelivered: 10 * time.Minute,
	open: 24 * time.Hour, behind: 10 * time.Second, behindAll: 200 * time.Millisecond,
}

// bridge is what a hub and a broker's client have in common: the agents of AgentHub in Cortex, what they work on, and chats.
type bridge struct {
	at     *role.Site
	prefix string // of the agents' names in Cortex
	times  times
	line   line
	ctx    context.Context //nolint:containedctx // of run, for what goes on without its caller

	wg sync.WaitGroup

	host      *agents.Host
	names     *kit.Names
	guests    *guests
	works     works
	questions questions
	chats     *chats
	pace      client.Pace // of what is asked of Cortex, by machine
}

// newBridge returns a bridge that reaches the programs of AgentHub by l.
func newBridge(at *role.Site, prefix string, t times, l line) (*bridge, error) {
	b := &bridge{at: at, prefix: prefix, times: t, line: l}
	var err error
	// The agents only wait for others: a restart of this process says nothing of them.
	if b.host, err = at.Host(hostName, &agents.Options{Concurrency: atOnce, Deliveries: -1, Grace: -1}); err != nil {
		return nil, transport.Permanent(err)
	}
	b.guests = &guests{b: b, held: kit.MaxCards, by: map[string]*guest{}, streams: map[string]int{}}
	b.chats = &chats{b: b, open: map[string]*chat{}}
	b.names = kit.NewNames(hostName, at.Keyed, func(id string) { b.wg.Go(func() { b.guests.changed(b.ctx, id) }) })
	b.names.Said = l.agent
	return b, nil
}

func (b *bridge) now() time.Time { return b.at.Client.Clock() }

// run serves the agents, and calls serve when Cortex's directory is known, until ctx ends or one of them fails.
func (b *bridge) run(ctx context.Context, serve func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	b.ctx = ctx
	g.Go(func() error { return b.names.Run(ctx, b.at.Transport, b.at.Tenant) })
	g.Go(func() error { return b.host.Serve(ctx) })
	g.Go(func() error {
		if err := b.names.Synced(ctx); err != nil {
			return err
		}
		if err := b.chats.resume(ctx); err != nil {
			return err
		}
		return serve(ctx)
	})
	err := g.Wait()
	b.wg.Wait()
	return err
}
