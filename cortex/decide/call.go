package decide

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds for a decider that ignores its context. Go cannot end a goroutine from outside, so the call is left behind with everything that it
// references.
const (
	stuckGrace = 10 * time.Second // that the call has to return after its time limit or a cancellation
	maxStuck   = 32               // calls that are left behind; above that, nothing is decided until one returns
)

// errStuck says that a call was left behind. Its arguments must not be modified any more.
var errStuck = fmt.Errorf("the decider did not return within %v after that", stuckGrace)

// LeftBehind is the error of a decision whose call was left behind. The caller must not use the conversation's fold any more. Text answers the turn.
type LeftBehind struct{ Text string }

func (s *LeftBehind) Error() string { return errStuck.Error() }

// stuck counts the calls that are left behind. It is safe for concurrent use.
type stuck struct {
	mu    sync.Mutex
	n     int
	since time.Time // when the first of the n was left behind
}

func (s *stuck) enter(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		s.since = now
	}
	s.n++
}

func (s *stuck) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
}

func (s *stuck) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// trouble describes the calls that have not returned, or returns "".
func (s *stuck) trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return ""
	}
	return fmt.Sprintf("decisions left behind since %s, as the decider does not heed its time limit: %d; at %d nothing is decided any more",
		s.since.UTC().Format(time.RFC3339), s.n, maxStuck)
}

// callers is a pool of goroutines that call the decider. A goroutine waits a moment for another call, because growing the stack of a new goroutine
// takes as long as a fast decision.
type callers chan func()

const callerIdle = time.Second

// do calls f in a goroutine of the pool. Idle goroutines end when stop is closed.
func (c callers) do(stop <-chan struct{}, f func()) {
	select {
	case c <- f:
	default:
		go c.work(stop, f)
	}
}

func (c callers) work(stop <-chan struct{}, f func()) {
	idle := time.NewTimer(callerIdle)
	defer idle.Stop()
	for {
		f()
		f = nil // it references a conversation
		idle.Reset(callerIdle)
		select {
		case f = <-c:
		case <-idle.C:
			return
		case <-stop:
			return
		}
	}
}

// within calls f, which calls the decider, and returns its result. It returns a panic as an error, and errStuck when f does not return in time after
// ctx has ended. The cost of such a call is added to the day's spending when f returns.
func within[T any](ctx context.Context, d *decision, f func() (T, error), cost func(T) llm.Usage) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	m := d.m
	if m.stuck.count() >= maxStuck {
		return none, conversation.Failure(fmt.Sprintf("Nothing can be decided now: %d earlier decisions have not ended, since the decider does not heed its time limit. "+
			"Have Cortex restarted, and ask again.", maxStuck))
	}
	returned := make(chan outcome, 1)
	call := func() {
		var o outcome
		defer func() { returned <- o }()
		defer recovered(&o.err)
		o.value, o.err = f()
	}
	if d.compute != nil {
		if err := d.compute(call); err != nil {
			return none, err
		}
	} else {
		m.callers.do(d.stop, call)
	}
	select {
	case r := <-returned:
		return r.value, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(stuckGrace)
	defer grace.Stop()
	select {
	case r := <-returned:
		return r.value, r.err
	case <-grace.C:
	}
	m.stuck.enter(m.cfg.Now())
	go func() { // nobody waits for it: it may never end
		r := <-returned
		m.stuck.leave()
		u := llm.UsageOf(r.err)
		if r.err == nil {
			u = cost(r.value)
		}
		m.cfg.Spending.Spend(context.WithoutCancel(ctx), conversation.Credible(u))
	}()
	return none, errStuck
}

// leave ends a decision whose call was left behind. why is the reason why the call should have ended.
func (d *decision) leave(ctx context.Context, why error) error {
	d.m.cfg.Spending.Spend(ctx, d.paid)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := conversation.AnswerCanceled
	if !errors.Is(why, errCanceled) {
		d.m.failures.Add(1)
		text = d.explain(fmt.Errorf("%w, and %w", why, errStuck))
	}
	d.m.log.WarnContext(ctx, "decision left behind: the decider does not heed its context", "context_id", d.conv.ContextID, "turn", d.turn.ID, "err", why,
		"left_behind", d.m.stuck.count(), "at_most", maxStuck)
	return &LeftBehind{text}
}

// The first piece of a draft is sent soon, but not at once: an instant answer costs no draft, since the answer itself follows. Later ones are sent at once
// when the one before was some time ago, so a word of a slow model is not held back, and are gathered when it was not, or until there are many bytes, so a
// fast model does not cost an event for each word.
const (
	draftFirst = time.Millisecond
	draftGap   = 10 * time.Millisecond
	draftBytes = 1024
)

// draft publishes the text of an answer on the Live topic while the decider writes it. The decider does not wait for the transport.
type draft struct {
	m     *Maker
	ctx   context.Context //nolint:containedctx // lives as long as the one call it is made for
	topic transport.Topic
	turn  *conversation.Turn

	mu      sync.Mutex
	pending strings.Builder
	due     *time.Timer // sends what is pending; nil before the first text
	sent    time.Time   // when text was last sent
	ended   bool

	sending chan struct{} // has one element while an event is being sent, so that they are sent in order
	attempt string        // the attempt whose text was sent; "": none was
	first   time.Time     // when text was first sent, by the clock of Config.Now
}

func (d *draft) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || text == "" {
		return
	}
	had := d.pending.Len()
	d.pending.WriteString(text)
	switch {
	case d.due == nil:
		d.sending = make(chan struct{}, 1)
		d.due = time.AfterFunc(draftFirst, d.send)
	case had == 0:
		d.due.Reset(max(draftGap-time.Since(d.sent), 0))
	}
	if had < draftBytes && d.pending.Len() >= draftBytes {
		d.due.Reset(0)
	}
}

// send publishes the pending text. A short text written within a moment is not sent: the answer itself follows.
func (d *draft) send() {
	d.sending <- struct{}{}
	defer func() { <-d.sending }()
	d.mu.Lock()
	text := d.pending.String()
	d.pending.Reset()
	d.sent = time.Now()
	skip := text == "" || d.ended && d.attempt == ""
	d.mu.Unlock()
	if skip {
		return
	}
	if d.attempt == "" {
		d.attempt, d.first = d.m.cfg.NewID(), d.m.cfg.Now()
	}
	err := d.m.cfg.Transport.Publish(d.ctx, d.topic, &transport.Event{
		ID: d.m.cfg.NewID(), Time: d.m.cfg.Now(), From: transport.Cortex, Tenant: d.topic.Tenant, ContextID: d.topic.ID,
		Traceparent: d.turn.Trace.Parent, Tracestate: d.turn.Trace.State,
		Payload: &transport.Delta{Turn: d.turn.ID, Attempt: d.attempt, Text: text},
	})
	if err != nil {
		d.m.log.Debug("text not shown", "context_id", d.topic.ID, "err", err)
	}
}

// end sends the pending text, if earlier text was sent, and waits until it is sent. Nothing is sent after end.
func (d *draft) end() {
	d.mu.Lock()
	d.ended = true
	if d.due == nil {
		d.mu.Unlock()
		return
	}
	d.due.Stop()
	d.mu.Unlock()
	d.send()
}
