package transport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// MaxFailures is how often an event may fail at one subscriber, by a panic or an error that is not [Temporary], before it is given up.
const MaxFailures = 8

const (
	failingWarned = 10 * time.Second // an event that fails for this long causes a warning
	failingAgain  = time.Minute      // between two such warnings of a subscriber
	failingFor    = 15 * time.Minute // after this long without a failure, another subscriber has the event
	maxFailing    = 4096             // events whose failures are counted
	maxTroubles   = 8                // events that a Trouble lists
	maxPanic      = 1 << 10          // bytes of a panic's text
)

// Failure is an event that a subscriber could not handle.
type Failure struct {
	ContextID, From, ID string
	Since               time.Time // of the first failure
	Times               int       // number of failures
	Err                 error     // of the latest failure
}

// Trouble describes the failures of an inbox's subscriber.
type Trouble struct {
	Failing []Failure // some of the events that will be tried again, the longest failing first
	More    int       // number of further such events
	GivenUp int       // events that became dead letters since the subscriber began to serve
	Last    Failure   // the latest event that was given up, if any
	NoRoom  string    // what is refused for want of room, for people; empty for nothing
	// Discarded counts dead letters that made room for newer ones since the subscriber began to serve.
	Discarded int
}

// Troubled is implemented by subscriptions of inboxes.
type Troubled interface {
	// Trouble returns the failures of the subscriber. It is safe for concurrent use.
	Trouble() Trouble
}

// PanicError is a panic of a [Handler].
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string {
	return "panic: " + shorten.Marked(fmt.Sprint(p.Value), maxPanic, " […]")
}

// Call calls h and returns its panic as a [PanicError], which it logs with the stack. Transports call every handler with it: one event must not end a
// process.
func Call(ctx context.Context, log *slog.Logger, h Handler, e *Event) (err error) {
	contextID, from, id := e.ContextID, e.From, e.ID // the handler may change them
	defer func() {
		if v := recover(); v != nil {
			p := &PanicError{Value: v, Stack: debug.Stack()}
			log.Error("handler panicked", "context_id", contextID, "from", from, "id", id, "err", p, "stack", string(p.Stack))
			err = p
		}
	}()
	return h(ctx, e)
}

// Failing counts the failures of events at an inbox's subscriber, for transports, and says when to give an event up. It is safe for concurrent use.
type Failing struct {
	inbox   string
	givenUp func(ctx context.Context, e *Event, reason error) error
	log     *slog.Logger

	size atomic.Int64 // number of events, usually 0

	mu     sync.Mutex
	events map[uint64]*failingEvent // by the key that the transport chooses
	warned time.Time
	total  int // number given up
	last   Failure
}

type failingEvent struct {
	Failure
	counted int // failures that are not temporary
	latest  time.Time
}

// NewFailing returns a Failing for a subscriber of inbox t.
func NewFailing(t Topic, o *SubscribeOptions, log *slog.Logger) *Failing {
	f := &Failing{inbox: t.ID, log: log, events: map[uint64]*failingEvent{}}
	if o != nil {
		f.givenUp = o.OnGivenUp
	}
	return f
}

// Handle calls h with the event that read returns, unless read returns an error. key identifies the event in its inbox. When Handle returns nil, the
// event is handled. After an error that is [Permanent], the caller makes the event a dead letter and then calls [Failing.GaveUp]; after another error
// it delivers the event again. read is called again for OnGivenUp.
func (f *Failing) Handle(ctx context.Context, h Handler, key uint64, read func() (*Event, error)) error {
	e, err := read()
	was := Failure{ContextID: e.ContextID, From: e.From, ID: e.ID}
	if err != nil {
		err = Permanent(fmt.Errorf("it cannot be read: %w", err))
	} else if err = Call(ctx, f.log, h, e); err == nil {
		f.Forget(key)
		return nil
	}
	if !IsPermanent(err) {
		if ctx.Err() != nil {
			return err
		}
		failed := f.note(key, was, err)
		if failed < MaxFailures {
			return err
		}
		err = Permanent(fmt.Errorf("it failed %d times, at last: %w", failed, err))
	}
	if untold := f.tell(ctx, err, read); untold != nil {
		f.note(key, was, untold)
		return untold
	}
	f.note(key, was, err)
	return err
}

// tell calls OnGivenUp. It returns an error when the call has to be repeated.
func (f *Failing) tell(ctx context.Context, reason error, read func() (*Event, error)) error {
	if f.givenUp == nil {
		return nil
	}
	e, _ := read() // reason has the error
	err := Call(ctx, f.log, func(ctx context.Context, e *Event) error { return f.givenUp(ctx, e, reason) }, e)
	if IsTemporary(err) {
		return fmt.Errorf("it is given up (%v), but its sender cannot be notified now: %w", reason, err) //nolint:errorlint // it would be permanent
	}
	if err != nil {
		f.log.Warn("sender not notified that an event is given up", "inbox", f.inbox, "context_id", e.ContextID, "id", e.ID, "err", err)
	}
	return nil
}

// note counts a failure, and returns the number of failures of the event that count.
func (f *Failing) note(key uint64, was Failure, err error) int {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	ev := f.events[key]
	if ev == nil {
		if len(f.events) >= maxFailing {
			f.prune(now)
		}
		if len(f.events) >= maxFailing {
			return 0
		}
		ev = &failingEvent{Failure: was}
		ev.Since = now
		f.events[key] = ev
		f.size.Store(int64(len(f.events)))
	}
	ev.Times, ev.Err, ev.latest = ev.Times+1, err, now
	if IsPermanent(err) {
		return ev.counted
	}
	if !IsTemporary(err) {
		ev.counted++
	}
	if now.Sub(ev.Since) >= failingWarned && now.Sub(f.warned) >= failingAgain {
		f.warned = now
		f.log.Warn("event fails again and again", "inbox", f.inbox, "context_id", ev.ContextID, "from", ev.From, "id", ev.ID,
			"since", ev.Since.UTC().Format(time.RFC3339), "times", ev.Times, "failing_events", len(f.events), "err", err)
	} else {
		f.log.Debug("event not handled", "inbox", f.inbox, "context_id", ev.ContextID, "id", ev.ID, "times", ev.Times, "err", err)
	}
	return ev.counted
}

// prune forgets events that have not failed for long; f.mu is held.
func (f *Failing) prune(now time.Time) {
	for key, ev := range f.events {
		if now.Sub(ev.latest) >= failingFor {
			delete(f.events, key)
		}
	}
	f.size.Store(int64(len(f.events)))
}

// Forget says that the subscriber no longer has event key.
func (f *Failing) Forget(key uint64) {
	if f.size.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.events, key)
	f.size.Store(int64(len(f.events)))
}

// GaveUp says that event key, for which Handle returned a [Permanent] error, is a dead letter.
func (f *Failing) GaveUp(key uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total++
	ev := f.events[key]
	if ev == nil { // it was not counted, since there were too many
		return
	}
	delete(f.events, key)
	f.size.Store(int64(len(f.events)))
	f.last = ev.Failure
	f.log.Warn("event given up", "inbox", f.inbox, "context_id", ev.ContextID, "from", ev.From, "id", ev.ID, "times", ev.Times, "err", ev.Err)
}

// Trouble implements [Troubled].
func (f *Failing) Trouble() Trouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prune(time.Now())
	t := Trouble{GivenUp: f.total, Last: f.last}
	for _, ev := range f.events {
		t.Failing = append(t.Failing, ev.Failure)
	}
	slices.SortFunc(t.Failing, func(a, b Failure) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	if n := len(t.Failing); n > maxTroubles {
		t.Failing, t.More = slices.Clone(t.Failing[:maxTroubles]), n-maxTroubles
	}
	return t
}
