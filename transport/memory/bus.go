package memory

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Options configures [New]. The zero value suits nearly all uses.
type Options struct {
	// MaxInbox bounds the events in one inbox, including delayed ones. Above it Publish returns ErrFull for new work, a user's message to the
	// orchestrator; above twice as many it returns ErrUnavailable for everything. The inbox of an agent has a twentieth of it. 0 is 1,000,000.
	MaxInbox int
	// Backoff is the delay before an event whose handler failed is delivered again. It doubles with every further failure, up to a hundred times its
	// value. 0 is 10 ms.
	Backoff time.Duration
	// Logger logs handlers that panic, and events that fail repeatedly or are given up; nil discards.
	Logger *slog.Logger
}

// Bus is a transport within one process. It implements [transport.Transport], [transport.DeadLetters], [transport.Withdrawer],
// [transport.Eraser], [transport.InboxDepth], [transport.Health], [transport.Files] and [transport.FileKeeper].
type Bus struct {
	w *world

	// Guarded by w.mu.
	closed  bool
	subs    map[subscription]struct{}
	watches map[*inboxWatch]struct{}
}

var (
	_ transport.Transport    = (*Bus)(nil)
	_ transport.DeadLetters  = (*Bus)(nil)
	_ transport.InboxDepth   = (*Bus)(nil)
	_ transport.InboxAge     = (*Bus)(nil)
	_ transport.InboxBacklog = (*Bus)(nil)
	_ transport.Health       = (*Bus)(nil)
)

// subscription is what a Bus closes.
type subscription interface {
	transport.Subscription
	// end closes the subscription; w.mu is held.
	end()
}

// world is shared by the clients of one bus.
type world struct {
	o Options

	mu        sync.Mutex
	clients   int
	seq       uint64 // of the events in inboxes
	inboxes   map[transport.Topic]*inbox
	boards    map[string]*board // by tenant
	live      map[transport.Topic]map[*feed]struct{}
	watches   map[transport.Topic]map[*inboxWatch]struct{} // of inboxes
	seen      seen
	dead      map[string][]*deadLetter // by tenant, oldest first
	agenda    agenda
	files     map[transport.Object]*object
	fileBytes int
}

// New returns the first client of a new, empty world. nil options are the defaults. The world is garbage once it is unreachable; after Close of all
// clients it has no goroutines or timers.
func New(o *Options) *Bus {
	w := &world{
		inboxes: map[transport.Topic]*inbox{},
		boards:  map[string]*board{},
		watches: map[transport.Topic]map[*inboxWatch]struct{}{},
		live:    map[transport.Topic]map[*feed]struct{}{},
		dead:    map[string][]*deadLetter{},
		files:   map[transport.Object]*object{},
	}
	if o != nil {
		w.o = *o
	}
	w.o.MaxInbox = cmp.Or(max(w.o.MaxInbox, 0), 1_000_000)
	w.o.Backoff = cmp.Or(max(w.o.Backoff, 0), 10*time.Millisecond)
	w.o.Logger = cmp.Or(w.o.Logger, slog.New(slog.DiscardHandler))
	w.agenda.w = w
	return (&Bus{w: w}).Dial()
}

// Dial returns another client of b's world, with its own subscriptions and its own Close. It also works after b's Close: a world without clients
// keeps its content and stands still.
func (b *Bus) Dial() *Bus {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients++
	w.agenda.run()
	return &Bus{w: w, subs: map[subscription]struct{}{}, watches: map[*inboxWatch]struct{}{}}
}

// Publish implements [transport.Transport]. It never blocks.
func (b *Bus) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if err := e.Validate(t); err != nil {
		return err
	}
	r, err := encode(e)
	if err != nil {
		return err
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.w.mu.Unlock()
	switch t.Kind {
	case transport.KindInbox:
		return b.w.post(t, r)
	case transport.KindCards:
		return b.w.board(t.Tenant).announce(r, e.Payload)
	default:
		for f := range b.w.live[t] {
			f.push(r)
		}
		return nil
	}
}

// Subscribe implements [transport.Transport].
func (b *Bus) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	if err := checkTopic(t); err != nil {
		return nil, fmt.Errorf("%w: subscribe: %w", transport.ErrInvalid, err)
	}
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	defer b.w.mu.Unlock()
	var s subscription
	switch t.Kind {
	case transport.KindInbox:
		s = newWorker(b, t, o)
	case transport.KindCards:
		f := newFeed(b, t)
		b.w.board(t.Tenant).subscribe(f)
		s = f
	default:
		f := newFeed(b, t)
		if b.w.live[t] == nil {
			b.w.live[t] = map[*feed]struct{}{}
		}
		b.w.live[t][f] = struct{}{}
		s = f
	}
	b.subs[s] = struct{}{}
	return s, nil
}

// lock locks the world for a call of b, unless ctx has ended or b is closed. The caller unlocks it.
func (b *Bus) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.w.mu.Lock()
	if b.closed {
		b.w.mu.Unlock()
		return transport.ErrClosed
	}
	return nil
}

func checkTopic(t transport.Topic) error {
	if t.Tenant != "" {
		if err := transport.CheckID(t.Tenant); err != nil {
			return fmt.Errorf("tenant %w", err)
		}
	}
	switch t.Kind {
	case transport.KindInbox, transport.KindLive:
		if err := transport.CheckID(t.ID); err != nil {
			return fmt.Errorf("%s: id %w", t.Kind, err)
		}
	case transport.KindCards:
	default:
		return fmt.Errorf("unknown topic kind %.40q", t.Kind)
	}
	return nil
}

// Close implements [transport.Transport]. Other clients of the same world are not affected.
func (b *Bus) Close() error {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	for s := range b.subs {
		s.end()
	}
	for w := range b.watches {
		w.end()
	}
	if b.w.clients--; b.w.clients == 0 && b.w.agenda.timer != nil {
		b.w.agenda.timer.Stop()
	}
	return nil
}

// Healthy implements [transport.Health]: a bus that is not closed is healthy.
func (b *Bus) Healthy(ctx context.Context) error {
	err := b.lock(ctx)
	if err == nil {
		b.w.mu.Unlock()
	}
	return err
}

// Waiting implements [transport.InboxDepth]. Delayed events count from when they are due.
func (b *Bus) Waiting(ctx context.Context, t transport.Topic) (int, error) {
	return b.count(ctx, t, func(in *inbox) int { return in.size })
}

// Age implements [transport.InboxAge].
func (b *Bus) Age(ctx context.Context, t transport.Topic) (waiting int, oldest time.Time, err error) {
	waiting, err = b.count(ctx, t, func(in *inbox) int {
		for _, c := range in.convs {
			for _, it := range c.waiting {
				oldest = earlier(oldest, it.since)
			}
			for it := range c.handling {
				oldest = earlier(oldest, it.since)
			}
		}
		return in.size
	})
	return waiting, oldest, err
}

// earlier returns the earlier of two times; a zero a is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Untaken implements [transport.InboxBacklog]. Events that wait after a failure count as taken.
func (b *Bus) Untaken(ctx context.Context, t transport.Topic) (int, error) {
	return b.count(ctx, t, func(in *inbox) int { return in.ready.Len() })
}

func (b *Bus) count(ctx context.Context, t transport.Topic, of func(*inbox) int) (int, error) {
	if t.Kind != transport.KindInbox {
		return 0, fmt.Errorf("%w: %s is no inbox", transport.ErrInvalid, t.Kind)
	}
	if err := b.lock(ctx); err != nil {
		return 0, err
	}
	defer b.w.mu.Unlock()
	if in := b.w.inboxes[t]; in != nil {
		return of(in), nil
	}
	return 0, nil
}
