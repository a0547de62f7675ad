package cortex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/together"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Config is what an Orchestrator needs. The first four fields are required.
type Config struct {
	Transport transport.Transport
	Store     storage.Store
	Decider   llm.Decider
	// Agents returns the agents that may be given work now, sorted by id. It is called for each decision, and when a
	// task is tried again. Neither the list nor the cards may change afterwards.
	Agents func(tenant string) []prompt.Agent
	// Present reports whether an agent runs, or is well known, even if it may not be given work now. The tasks of an agent that is absent for long
	// are tried with other agents. nil stands for the agents that Agents returns.
	Present func(agentID string) bool
	// Router finds the agents that fit a request; it must know the agents that Agents returns. With nil, prompts show all agents,
	// however many there are.
	Router *router.Index
	// Shortlist is how many agents a prompt shows when there are more than [catalog.MaxAgents], beside those that are in use or named;
	// 0 means 20.
	Shortlist int
	// NoLearning turns learning off. Otherwise a Store that is a [storage.Notes] keeps what delegations teach the Router.
	NoLearning bool
	// Policy returns the present rules: who may ask which agents, and how often. nil, or a nil Policy, allows everything.
	Policy func() *policy.Policy

	Tenant string // "" is the default tenant
	// Authenticated means that senders have proven who they are. A conversation then belongs to the sender of its first message, see
	// [conversation.Conversation.Admits]. Otherwise everybody may speak in every conversation.
	Authenticated bool
	// Label describes this process in the list of replicas, see [transport.SubscribeOptions].
	Label string
	// TaskTimeout is how long an agent may take for a task; 0 means 5 minutes.
	TaskTimeout time.Duration
	// ReplyTimeout is how long an agent's question waits for the user; 0 means 24 hours.
	ReplyTimeout time.Duration
	// DecideTimeout is how long a decision may take, with the summaries made for it; 0 means 2 minutes. A Decider that ignores the end of its
	// context is abandoned shortly after; when too many are abandoned, no decision is made any more.
	DecideTimeout time.Duration
	// Decisions is how many decisions may be made at a time, each of which may hold a connection to a model; 0 means 2048, the maximum. Others
	// wait, shared fairly among their senders; if Authenticated, a sender with thousands of waiting requests, or tens of megabytes, is refused.
	Decisions int
	// Budget limits what is spent on models. A Budget.Day needs a Store that is a [storage.SpendLog].
	Budget budget.Limits
	// Observers are told of each entry, in this order.
	Observers []Observer

	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil means time.Now
	NewID  func() string    // makes ids that are not derived from a log; nil means random UUIDs
}

// Orchestrator runs the turns of a tenant's conversations. New makes one, and Run starts it.
type Orchestrator struct {
	cfg        Config
	log        *slog.Logger
	folds      *cache.Folds
	unstored   *cache.Unstored
	spending   *budget.Spending
	maker      *decide.Maker
	departures *departures
	inherited  *inherited
	outlines   *outlines
	stats      counters
	owned      atomic.Pointer[[]int]
	learner    *learn.Learner
	looks      together.Asks[lookedAt, *looked]
	overdues   chan struct{} // holds a value for each conversation that is read for overdue tasks, see look
	queue      *taskQueue
	inbox      atomic.Pointer[transport.Subscription]
	refusals   storage.Refusals
	letters    letterShares
}

// New returns an Orchestrator. It does no I/O. An error names the field that is missing or wrong.
func New(cfg Config) (*Orchestrator, error) {
	switch {
	case cfg.Transport == nil:
		return nil, errors.New("cortex: Config.Transport is missing")
	case cfg.Store == nil:
		return nil, errors.New("cortex: Config.Store is missing")
	case cfg.Decider == nil:
		return nil, errors.New("cortex: Config.Decider is missing")
	case cfg.Agents == nil:
		return nil, errors.New("cortex: Config.Agents is missing")
	case cfg.TaskTimeout < 0, cfg.ReplyTimeout < 0, cfg.DecideTimeout < 0, cfg.Decisions < 0:
		return nil, errors.New("cortex: Config.TaskTimeout, ReplyTimeout, DecideTimeout or Decisions is negative")
	}
	if err := cfg.Budget.Check(); err != nil {
		return nil, fmt.Errorf("cortex: Config.Budget.%w", err)
	}
	if _, ok := cfg.Store.(storage.SpendLog); !ok && cfg.Budget.Day != (llm.Budget{}) {
		return nil, errors.New("cortex: Config.Budget.Day is set, but the Store has no spend log")
	}
	cfg.TaskTimeout = cmp.Or(cfg.TaskTimeout, 5*time.Minute)
	cfg.ReplyTimeout = cmp.Or(cfg.ReplyTimeout, 24*time.Hour)
	cfg.DecideTimeout = cmp.Or(cfg.DecideTimeout, 2*time.Minute)
	cfg.Decisions = min(cmp.Or(cfg.Decisions, decide.MaxDecisions), decide.MaxDecisions)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = uuid.NewString
	}
	spendLog, _ := cfg.Store.(storage.SpendLog)
	spending := budget.New(budget.Config{
		Limits: cfg.Budget, Log: spendLog, Tenant: cfg.Tenant, Timeout: cfg.DecideTimeout, Logger: cfg.Logger, Now: cfg.Now,
	})
	var notes storage.Notes
	if cfg.Router != nil && !cfg.NoLearning {
		notes, _ = cfg.Store.(storage.Notes)
	}
	learner := learn.New(learn.Config{
		Notes: notes, Transport: cfg.Transport, Router: cfg.Router, Tenant: cfg.Tenant, Logger: cfg.Logger, Now: cfg.Now,
	})
	counts, _ := cfg.Store.(storage.Notes)
	maker := decide.New(decide.Config{
		Transport: cfg.Transport, Decider: cfg.Decider, Agents: cfg.Agents, Present: cfg.Present, Router: cfg.Router, Policy: cfg.Policy,
		Spending: spending, Shortlist: cfg.Shortlist, Authenticated: cfg.Authenticated, TaskTimeout: cfg.TaskTimeout, DecideTimeout: cfg.DecideTimeout,
		Decisions: cfg.Decisions, Notes: counts, Record: learner.Record, Logger: cfg.Logger, Now: cfg.Now, NewID: cfg.NewID,
	})
	return &Orchestrator{
		cfg: cfg, log: cfg.Logger, folds: new(cache.Folds), unstored: cache.NewUnstored(), departures: newDepartures(cfg.Now), inherited: newInherited(),
		overdues: make(chan struct{}, maxOverdues),
		spending: spending, learner: learner, maker: maker, queue: newTaskQueue(&cfg, maker), outlines: newOutlines(&cfg),
	}, nil
}

// Run handles events from the orchestrator's inbox until ctx ends, and then returns nil. Events that are being handled
// go back to the inbox. It returns an error when the transport gives up. Run is called once.
func (o *Orchestrator) Run(ctx context.Context) error {
	if err := o.run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func (o *Orchestrator) run(ctx context.Context) error {
	if err := o.learner.Remember(ctx); err != nil {
		return err
	}
	inbox, err := o.cfg.Transport.Subscribe(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.SubscribeOptions{
		Label: o.cfg.Label, OnGivenUp: o.givenUp,
		OnOwned: func(p []int) {
			o.countOwned(o.Owned(), p)
			o.owned.Store(&p)
			o.inherited.own(p)
			o.spending.Own(float64(len(p)) / transport.Partitions)
		},
	})
	if err != nil {
		return fmt.Errorf("subscribe to the inbox: %w", err)
	}
	defer inbox.Close()
	o.inbox.Store(&inbox)
	control, err := o.cfg.Transport.Subscribe(ctx, transport.Control(o.cfg.Tenant, transport.Cortex), nil)
	if err != nil {
		return fmt.Errorf("subscribe to control: %w", err)
	}
	defer control.Close()
	var queue transport.Subscription
	if o.queue.backlog != nil {
		queue, err = o.cfg.Transport.Subscribe(ctx, transport.Inbox(o.cfg.Tenant, transport.Queue),
			&transport.SubscribeOptions{Concurrency: queueHandlers, Unordered: true})
		if err != nil {
			return fmt.Errorf("subscribe to the queue: %w", err)
		}
		defer queue.Close()
	}

	var writer sync.WaitGroup
	defer writer.Wait()
	handled := make(chan struct{}) // closed when all events are handled, and nothing more will be spent
	defer close(handled)
	writer.Go(func() { o.spending.Serve(ctx, handled) })
	writer.Go(func() { o.learner.Serve(ctx, handled) })

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return inbox.Serve(gctx, o.handle) })
	g.Go(func() error { return control.Serve(gctx, o.controlled) })
	tend := func(f func(context.Context)) { // f cannot fail
		g.Go(func() error {
			f(gctx)
			return nil
		})
	}
	if queue != nil {
		g.Go(func() error { return queue.Serve(gctx, o.queued) })
		tend(o.queue.serve)
	}
	tend(func(ctx context.Context) { o.departures.serve(ctx, o.publishGone) })
	tend(o.inherit)
	tend(o.outlines.serve)
	tend(func(ctx context.Context) { o.maker.Sweep(ctx, o.cfg.Tenant) })
	return g.Wait()
}

// now returns the time for an entry, as its log will have it: without the monotonic reading, by which two times of one process compare. What is folded in
// memory would otherwise differ from what is folded of the log when the clock was set between them.
func (o *Orchestrator) now() time.Time { return o.cfg.Now().Round(0) }

// Owned returns the [transport.Partitions] whose conversations this orchestrator handles now, sorted; nil before Run, or
// when the transport does not report them. It is safe for concurrent use.
func (o *Orchestrator) Owned() []int {
	if p := o.owned.Load(); p != nil {
		return *p
	}
	return nil
}
