package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Handler does one task. It returns the result, or an error whose text tells the user why there is none: the task
// then has failed or, with a [Rejected] error, was refused. A nil Result without an error completes the task without text.
//
// ctx ends at the task's deadline, when the task is canceled and when the agent stops; [context.Cause] tells which. The handler
// must then return soon. The deadline may move while the handler works (see [Task].Deadline), so ctx has no deadline of its own. A task that was
// stopped before it was done goes to another instance of the agent or a later one, so a handler may see a task again: see [Task].Delivery.
//
// Handlers of different tasks run concurrently. A panic only fails the task.
type Handler func(ctx context.Context, t *Task) (*Result, error)

// Causes of the end of a Handler's context, see [context.Cause]; at the deadline it is [context.DeadlineExceeded].
var (
	ErrCanceled = errors.New("the task was canceled")
	ErrStopping = errors.New("the agent is stopping")
)

// Defaults of Options.
const (
	DefaultConcurrency = 8
	DefaultHeartbeat   = 30 * time.Second
	DefaultGrace       = 10 * time.Second
)

// MaxDeliveries is how often a task is started before it is given up, unless [Options] say otherwise: a task that was delivered more
// often has stopped the agent every time.
const MaxDeliveries = 3

// announceTimeout bounds the last announcements of an agent that leaves, and the last attempt to send a result.
const announceTimeout = 2 * time.Second

// Options configures Serve. The zero value suits most agents.
type Options struct {
	// Tenant is the tenant whose tasks the agent does; "" is the default tenant.
	Tenant string
	// Instance identifies this process among those that serve the same agent; "" means a random id.
	Instance string
	// Concurrency is how many tasks are worked on at a time; 0 means max_concurrent_tasks of the card, or else DefaultConcurrency.
	Concurrency int
	// Heartbeat is the time between two announcements of the card; 0 means DefaultHeartbeat. An announcement expires after
	// three heartbeats, at least one second.
	Heartbeat time.Duration
	// Grace is how long tasks may continue after the context of Serve has ended; 0 means DefaultGrace, less than 0 none.
	Grace time.Duration
	// HandOver is for how long the agents of a [Host] count as present after its Serve has ended, for another process to take them over; 0: they leave
	// at once. Without a host it has no effect.
	HandOver time.Duration
	// Deliveries is how often a task is started before it is given up; 0 means MaxDeliveries, less than 0 no limit: for an agent
	// that only waits for others, whose tasks continue when it is restarted.
	Deliveries int
	// MaxFile bounds a file of a result, in bytes; 0 means [transport.DefaultMaxFile].
	MaxFile int64
	// Once makes Serve do the waiting tasks, those in Cortex's queue included, and return when the inbox has been empty for two
	// seconds. The transport must be a transport.InboxDepth.
	Once bool
	// Changes receives changes of the agent while it is served, each of which is announced at once; nil means none. Hosts ignore it.
	Changes <-chan Change
	// Bid is asked for what the agent would do a task: see [transport.Tender]; nil bids by the card. With it, the card says that the agent bids. It returns
	// nil to decline. It is called concurrently, also while the agent is busy, and should return within some hundred milliseconds; ctx ends when bids are
	// no longer waited for. Hosts ignore it.
	Bid func(ctx context.Context, t *transport.Tender) (*transport.Bid, error)
	// Forget is called with each erased conversation that this agent has worked for, if it runs then, so that what it keeps of it elsewhere is erased
	// too, such as by [ForgetQuestions]; nil if it keeps nothing. An error is logged. An agent of a [Host] hears it only while it has tasks.
	Forget func(tenant, contextID string) error
	// Tracer makes spans of tasks, whose trace context is then that of their span; nil makes none.
	Tracer Tracer
	// Logger logs tasks and problems; nil discards.
	Logger *slog.Logger
}

// Change is a change of an agent.
type Change struct {
	Card     *a2a.AgentCard // the new card, with the same name; nil: the card stays
	Draining bool           // whether the agent takes no new tasks for now
}

// Serve runs the agent that card describes, using x to do its tasks, until ctx ends, and then returns nil; with Options.Once it returns nil when
// no task is left. The agent's id is [transport.AgentID] of the card's name; several instances of one agent share its tasks.
// While the transport is unavailable Serve keeps trying. It returns an error when the card is invalid, or when the
// transport was closed.
//
// When ctx ends, the agent announces that it is draining, takes no more tasks, gives its present tasks Options.Grace to finish,
// ends the context of those that do not, returns them to the inbox, and announces that it has left. Serve returns after the
// last handler.
//
// Serve does not change card; required lists that are nil are announced as empty ones.
func Serve(ctx context.Context, tr transport.Transport, card *a2a.AgentCard, x Executor, o *Options) error {
	a, err := newAgent(tr, card, x, o)
	if err != nil {
		return err
	}
	return a.serve(ctx)
}

// agent is one instance while it is being served.
type agent struct {
	tr  transport.Transport
	id  string
	x   Executor
	o   Options
	log *slog.Logger
	seq *atomic.Uint64 // of events without a derived id; shared within the instance

	host *Host // that announces it, and serves it while it has tasks; nil: it is served alone

	clocks *clocks
	wall   *wall

	answering sync.WaitGroup // goroutines that bid

	work    context.Context // parent of all handlers' contexts; ends after the grace period
	sending context.Context // for results; ends shortly after work, so that finished work is not lost
	take    context.Context // ends when no more tasks are to be taken

	mu       sync.Mutex
	card     *a2a.AgentCard
	running  map[a2a.TaskID]*run
	finished memory[outcome]
	canceled memory[cancellation]               // that arrived before their task
	bidding  int                                // tenders that are being answered
	asks     map[string]chan<- *a2a.Message     // by the ids of requests that tasks wait for; buffered, one answer each
	readings map[string]chan<- *transport.Board // by the ids of readings of boards; buffered
	watches  map[chan<- struct{}]a2a.TaskID     // of boards, by their channels; buffered
	answers  memory[*a2a.Message]               // latest answers, by the ids of their requests
}

func newAgent(tr transport.Transport, card *a2a.AgentCard, x Executor, o *Options) (*agent, error) {
	if h, ok := x.(Handler); tr == nil || card == nil || x == nil || ok && h == nil {
		panic("agents: Serve needs a transport, a card and a handler")
	}
	o = cmp.Or(o, &Options{})
	if d, ok := x.(describer); ok {
		card = d.describe(card)
	}
	if o.Bid != nil {
		card = withPattern(card, agentcard.MarketBidding)
	}
	a := &agent{
		tr: tr, x: x, o: *o, log: o.Logger, card: complete(card),
		running:  map[a2a.TaskID]*run{},
		readings: map[string]chan<- *transport.Board{}, watches: map[chan<- struct{}]a2a.TaskID{},
		asks: map[string]chan<- *a2a.Message{}, clocks: &clocks{start: time.Now()}, wall: newWall(), seq: new(atomic.Uint64),
	}
	if err := transport.ValidateCard(a.card); err != nil {
		return nil, err
	}
	var err error
	if a.id, err = transport.AgentID(card.Name); err != nil {
		return nil, err
	}
	if transport.IsReserved(a.id) {
		return nil, fmt.Errorf("card: the name %s is the orchestrator's own: choose another", a.id)
	}
	a.rememberIn(new(memories))
	a.log = cmp.Or(a.log, slog.New(slog.DiscardHandler))
	a.log = a.log.With("agent", a.id)
	a.o.Instance = cmp.Or(a.o.Instance, uuid.NewString())
	// The ids of events begin with the instance's.
	if err := transport.CheckID(a.o.Instance + ".18446744073709551615"); err != nil {
		return nil, fmt.Errorf("instance %w", err)
	}
	if a.o.Concurrency <= 0 {
		a.o.Concurrency = cmp.Or(agentcard.SpecOf(card).Limits.MaxConcurrentTasks, DefaultConcurrency)
	}
	a.o.Deliveries = cmp.Or(a.o.Deliveries, MaxDeliveries)
	a.o.Heartbeat = cmp.Or(max(a.o.Heartbeat, 0), DefaultHeartbeat)
	switch {
	case a.o.Grace == 0:
		a.o.Grace = DefaultGrace
	case a.o.Grace < 0:
		a.o.Grace = 0
	}
	return a, nil
}

// rememberIn sets where the agent remembers tasks. It is called before the agent is served.
func (a *agent) rememberIn(all *memories) { a.finished.in, a.canceled.in, a.answers.in = all, all, all }

// forget forgets what the agent remembers of tasks.
func (a *agent) forget() {
	a.finished.forget()
	a.canceled.forget()
	a.answers.forget()
}

func (a *agent) serve(ctx context.Context) error {
	// Running tasks continue after ctx has ended; each of these contexts ends at its own time.
	base := context.WithoutCancel(ctx)
	work, stopWork := context.WithCancelCause(base)
	defer stopWork(nil)
	sending, stopSending := context.WithCancel(base)
	defer stopSending()
	take, stopTaking := context.WithCancel(base)
	defer stopTaking()
	a.work, a.sending, a.take = work, sending, take

	// Subscribe to cancellations before the first task is taken, and until the last one has ended.
	control, err := a.subscribe(ctx, transport.Control(a.o.Tenant, a.id), nil)
	if err != nil {
		return ended(ctx, err)
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer control.Close()
	defer a.answering.Wait()
	listening.Go(func() { _ = control.Serve(base, a.control) })

	inbox, err := a.subscribe(ctx, transport.Inbox(a.o.Tenant, a.id), &transport.SubscribeOptions{Concurrency: a.o.Concurrency, Unordered: true})
	if err != nil {
		return ended(ctx, err)
	}
	defer inbox.Close()
	served := make(chan error, 1)
	go func() { served <- inbox.Serve(take, a.receive) }()

	present, stopPresent := context.WithCancel(ctx)
	defer stopPresent()
	stopped := make(chan error, 2) // a reason to stop other than ctx
	var background sync.WaitGroup
	if a.host != nil {
		background.Go(func() { stopped <- a.untilEmpty(present, hostedQuiet, 2*hostedQuiet) })
	} else {
		background.Go(func() { a.wall.watch(present) })
		background.Go(func() {
			if err := a.announce(present); err != nil {
				stopped <- err
			}
		})
	}
	if k, ok := a.x.(Keeper); ok && a.host == nil {
		background.Go(func() { a.inquire(present, k) })
	}
	if a.o.Once {
		background.Go(func() { stopped <- a.untilEmpty(present, onceInterval, onceQuiet) })
	}

	var result error
	isServing := true
	select {
	case <-ctx.Done():
	case result = <-stopped:
	case result = <-served: // the transport was closed
		isServing = false
	}

	stopPresent()
	background.Wait()
	if isServing {
		if a.host == nil {
			a.publishCard(base, &transport.Card{Card: a.shown(), Draining: true, TTL: a.ttl() + a.o.Grace})
		}
		stopTaking()
		defer time.AfterFunc(a.o.Grace, func() { stopWork(ErrStopping) }).Stop()
		defer time.AfterFunc(a.o.Grace+announceTimeout, stopSending).Stop()
		<-served //nolint:errcheck // it was told to end
	}
	if a.host == nil {
		a.publishCard(base, &transport.Card{Gone: transport.GoneLeft})
		if result == nil {
			a.log.Info("agent left")
		} else {
			a.log.Info("agent left", "err", result)
		}
	}
	return result
}

// ended returns err, or nil when ctx has ended: a requested stop is no error.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *agent) subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	var s transport.Subscription
	err := a.retry(ctx, "subscribe", func() (err error) {
		s, err = a.tr.Subscribe(ctx, t, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to the %s of %s: %w", t.Kind, a.id, err)
	}
	return s, nil
}
