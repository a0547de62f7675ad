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

// Handler does one task. It returns the result, or an error whose text tells the user why there is none: then the task
// has failed, or, for a [Rejected] error, was refused. A nil Result without an error is a task that was done without words.
//
// ctx ends at the task's deadline, when the task is canceled and when the agent stops; [context.Cause] tells which. The handler
// must then return soon. The deadline may move while the handler works (see [Task].Deadline), so that ctx names none. A task that was stopped before it was done is given to
// another instance of the agent or to a later one, so that a handler may see a task again: see [Task].Delivery.
//
// Handlers of different tasks run at the same time. A panic fails the task and nothing else.
type Handler func(ctx context.Context, t *Task) (*Result, error)

// Why the context of a Handler ended, as [context.Cause] tells; at the deadline it is [context.DeadlineExceeded].
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

// MaxDeliveries is how often a task is started before it is given up, unless [Options] say something else: a task that was delivered more
// often has stopped the agent every time.
const MaxDeliveries = 3

// announceTimeout bounds the last announcements of an agent that leaves, and the last attempt to send a result.
const announceTimeout = 2 * time.Second

// Options configures Serve. The zero value is right for most agents.
type Options struct {
	// Tenant is whose tasks the agent does; "" is the default tenant.
	Tenant string
	// Instance tells this process from others that serve the same agent; "" is a random id.
	Instance string
	// Concurrency bounds the tasks that are worked on at once; 0 is what the card says (max_concurrent_tasks), or DefaultConcurrency.
	Concurrency int
	// Heartbeat is the time between two announcements of the card; 0 is DefaultHeartbeat. An announcement holds for
	// three heartbeats, and for a second at least.
	Heartbeat time.Duration
	// Grace is how long tasks may go on after the context of Serve has ended; 0 is DefaultGrace, less than 0 is none.
	Grace time.Duration
	// Deliveries is how often a task is started before it is given up; 0 is MaxDeliveries, less than 0 is no bound: that is for an agent
	// that only waits for others, whose tasks go on while it is restarted.
	Deliveries int
	// MaxFile bounds a file of a result, in bytes; 0 is [transport.DefaultMaxFile].
	MaxFile int64
	// Once makes Serve return when the inbox has been empty for two seconds: what waits is done, also in Cortex's queue of what is too much at
	// a time, then the agent leaves. The transport must
	// be a transport.InboxDepth.
	Once bool
	// Changes brings another card of the agent, or that it takes no tasks for a time, while it is served; nil brings nothing. It is not for hosts.
	Changes <-chan Change
	// Logger is told about tasks and trouble; nil discards.
	Logger *slog.Logger
}

// Change is what is new of an agent: it is announced at once.
type Change struct {
	Card     *a2a.AgentCard // with the name that it has; nil: as it was
	Draining bool           // it takes no new tasks, until another Change says that it does
}

// Serve runs the agent that card describes, with x for what it does, until ctx ends, and then returns nil; with Options.Once it returns nil when
// nothing is left to do. Its id is [transport.AgentID] of the card's name; several instances of one agent share its tasks.
// While the transport is unavailable Serve keeps trying. It returns an error when the card is invalid, or when the
// transport was closed.
//
// When ctx ends, the agent announces that it is draining, takes no more tasks, gives those it has Options.Grace to finish,
// ends the context of those that do not, hands them back to the inbox, and says that it has left. Serve returns after the
// last handler.
//
// card is not changed; required lists that are nil are announced as empty ones.
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
	seq *atomic.Uint64 // of events that need no derived id; one for the instance

	hosted bool // a Host announces it, and has it served while there is something to do

	clocks *clocks

	work    context.Context // parent of all handlers' contexts; ends when the grace is over
	sending context.Context // for results; ends a moment after work, so that what was done is not lost
	take    context.Context // ends when no more tasks are to be taken

	mu       sync.Mutex
	card     *a2a.AgentCard
	running  map[a2a.TaskID]*run
	finished *memory[outcome]
	canceled *memory[cancellation]          // that came before their task
	asks     map[string]chan<- *a2a.Message // by the ids of what tasks have asked and wait for; one place each
	answers  *memory[*a2a.Message]          // by the same, of late
}

func newAgent(tr transport.Transport, card *a2a.AgentCard, x Executor, o *Options) (*agent, error) {
	if h, ok := x.(Handler); tr == nil || card == nil || x == nil || ok && h == nil {
		panic("agents: Serve needs a transport, a card and a handler")
	}
	if o == nil {
		o = &Options{}
	}
	if d, ok := x.(describer); ok {
		card = d.describe(card)
	}
	a := &agent{
		tr: tr, x: x, o: *o, log: o.Logger, card: complete(card),
		running: map[a2a.TaskID]*run{}, finished: newMemory[outcome](), canceled: newMemory[cancellation](),
		asks: map[string]chan<- *a2a.Message{}, answers: newMemory[*a2a.Message](), clocks: newClocks(), seq: new(atomic.Uint64),
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
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = a.log.With("agent", a.id)
	if a.o.Instance == "" {
		a.o.Instance = uuid.NewString()
	}
	// The ids of events begin with the instance's.
	if err := transport.CheckID(a.o.Instance + ".18446744073709551615"); err != nil {
		return nil, fmt.Errorf("instance %w", err)
	}
	if a.o.Concurrency <= 0 {
		a.o.Concurrency = cmp.Or(agentcard.SpecOf(card).Limits.MaxConcurrentTasks, DefaultConcurrency)
	}
	if a.o.Deliveries == 0 {
		a.o.Deliveries = MaxDeliveries
	}
	if a.o.Heartbeat <= 0 {
		a.o.Heartbeat = DefaultHeartbeat
	}
	switch {
	case a.o.Grace == 0:
		a.o.Grace = DefaultGrace
	case a.o.Grace < 0:
		a.o.Grace = 0
	}
	return a, nil
}

func (a *agent) serve(ctx context.Context) error {
	// What runs goes on after ctx has ended, each for its own time.
	base := context.WithoutCancel(ctx)
	work, stopWork := context.WithCancelCause(base)
	defer stopWork(nil)
	sending, stopSending := context.WithCancel(base)
	defer stopSending()
	take, stopTaking := context.WithCancel(base)
	defer stopTaking()
	a.work, a.sending, a.take = work, sending, take

	// Cancellations are heard before the first task is taken, and until the last one has ended.
	control, err := a.subscribe(ctx, transport.Control(a.o.Tenant, a.id), nil)
	if err != nil {
		return ended(ctx, err)
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	defer control.Close()
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
	stopped := make(chan error, 2) // why to stop, when it is not ctx
	var background sync.WaitGroup
	if a.hosted {
		background.Go(func() { stopped <- a.untilQuiet(present) })
	} else {
		background.Go(func() {
			if err := a.announce(present); err != nil {
				stopped <- err
			}
		})
	}
	if a.o.Once {
		background.Go(func() { stopped <- a.untilEmpty(present) })
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
		if !a.hosted {
			a.publishCard(base, &transport.Card{Card: a.shown(), Draining: true, TTL: a.ttl() + a.o.Grace})
		}
		stopTaking()
		defer time.AfterFunc(a.o.Grace, func() { stopWork(ErrStopping) }).Stop()
		defer time.AfterFunc(a.o.Grace+announceTimeout, stopSending).Stop()
		<-served //nolint:errcheck // it was told to end
	}
	if !a.hosted {
		a.publishCard(base, &transport.Card{Gone: transport.GoneLeft})
		a.log.Info("agent left", "err", result)
	}
	return result
}

// ended is err, or nil when it came from the end of ctx: a stop that was asked for is no error.
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
