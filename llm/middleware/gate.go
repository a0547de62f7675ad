package middleware

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// maxTurn bounds the wait for a turn, and with it the queue.
	maxTurn = 10 * time.Minute
	// maxHold bounds for how long an endpoint can have all calls held back.
	maxHold = 30 * time.Second
)

// gate lets calls through in the order in which they come, as its limits allow.
//
// Who waits has taken nothing from the limiters yet: one that gives up leaves nothing behind, and what is given back is
// there for the next at once. Reservations of the limiters could do neither.
type gate struct {
	rate     Rate
	turn     chan struct{} // held by the call that is next; the runtime serves senders that wait in their order
	returned chan struct{} // tells that call that tokens were given back

	mu       sync.Mutex
	requests *rate.Limiter // nil when there is no limit
	tokens   *rate.Limiter // likewise
	heldTill time.Time
	waiting  demand // of all that wait, together
}

// demand is what calls take.
type demand struct{ requests, tokens int }

func newGate(r Rate) *gate {
	g := &gate{rate: r, turn: make(chan struct{}, 1), returned: make(chan struct{}, 1)}
	if r.Requests > 0 {
		g.requests = rate.NewLimiter(rate.Limit(float64(r.Requests)/60), r.Requests)
	}
	if r.Tokens > 0 {
		g.tokens = rate.NewLimiter(rate.Limit(float64(r.Tokens)/60), r.Tokens)
	}
	return g
}

// enter waits for the turn of a call that needs so many tokens, and returns how many it took.
func (g *gate) enter(ctx context.Context, tokens int) (taken int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	own := demand{1, max(0, min(tokens, g.rate.Tokens))}

	g.mu.Lock()
	g.waiting.requests += own.requests
	g.waiting.tokens += own.tokens
	passed, _, err := g.pass(ctx, own, g.waiting)
	g.mu.Unlock()
	if passed || err != nil {
		return own.tokens, err
	}

	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return 0, g.quit(ctx, own)
	}
	for {
		g.mu.Lock()
		passed, wait, err := g.pass(ctx, own, own)
		g.mu.Unlock()
		if passed || err != nil {
			return own.tokens, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-g.returned:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return 0, g.quit(ctx, own)
		}
	}
}

// pass lets a call go if the limits allow all of ahead, which is the demand of the calls before it and its own, and takes own from the limits.
// Otherwise it returns how long the call has to wait, or an error when its deadline comes before that. A call that passed or got an error is
// not among the waiting ones any more. The caller of pass holds g.mu.
func (g *gate) pass(ctx context.Context, own, ahead demand) (passed bool, wait time.Duration, err error) {
	now := time.Now()
	wait, message := g.heldTill.Sub(now), "the endpoint asked all calls to wait"
	if d := delay(g.requests, now, ahead.requests); d > wait {
		wait, message = d, fmt.Sprintf("our own limit of %d requests a minute", g.rate.Requests)
	}
	if d := delay(g.tokens, now, ahead.tokens); d > wait {
		wait, message = d, fmt.Sprintf("our own limit of %d tokens a minute", g.rate.Tokens)
	}
	switch deadline, ok := ctx.Deadline(); {
	case wait <= 0:
		// Never refused, since there is as much. A rounding error is owed.
		if g.requests != nil {
			g.requests.ReserveN(now, own.requests)
		}
		if g.tokens != nil {
			g.tokens.ReserveN(now, own.tokens)
		}
		passed = true
	case wait > maxTurn || ok && !now.Add(wait).Before(deadline):
		err = &llm.Error{Kind: llm.ErrRateLimited, Message: message, RetryAfter: wait}
	default:
		return false, wait, nil
	}
	g.leave(own)
	return passed, 0, err
}

// leave takes a call out of those that wait. g.mu is held.
func (g *gate) leave(own demand) {
	g.waiting.requests -= own.requests
	g.waiting.tokens -= own.tokens
}

// quit is leave for a call whose ctx ended.
func (g *gate) quit(ctx context.Context, own demand) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(own)
	return fmt.Errorf("wait for the rate limit: %w", ctx.Err())
}

// delay returns how long it takes until l has n.
func delay(l *rate.Limiter, now time.Time, n int) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	// Rounded up, so that a wait for almost nothing is a wait too.
	return time.Duration(math.Ceil(missing / float64(l.Limit()) * float64(time.Second)))
}

// settle puts right that so many tokens were taken for a call that used another number.
func (g *gate) settle(taken, used int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens == nil {
		return
	}
	now := time.Now()
	if used < taken {
		g.tokens.ReserveN(now, used-taken) // gives back
		select {
		case g.returned <- struct{}{}:
		default:
		}
		return
	}
	// However much an endpoint says that its answers were, the gate is not closed for longer than anybody would wait at it.
	room := float64(maxTurn/time.Minute)*float64(g.rate.Tokens) + g.tokens.TokensAt(now)
	owed := int(min(float64(used-taken), room))
	for owed > 0 {
		n := min(owed, g.rate.Tokens) // more is not reserved at once
		g.tokens.ReserveN(now, n)
		owed -= n
	}
}

// hold lets nobody through for d.
func (g *gate) hold(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if till := time.Now().Add(min(d, maxHold)); till.After(g.heldTill) {
		g.heldTill = till
	}
}
