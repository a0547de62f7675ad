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
	// maxTurn bounds the wait for a turn, and so the queue.
	maxTurn = 10 * time.Minute
	// maxHold bounds how long an endpoint can delay all calls.
	maxHold = 30 * time.Second
)

// gate admits calls in the order in which they arrive, as its limits allow.
//
// A waiting call has taken nothing from the limiters: when it gives up, nothing has to be undone, and returned tokens are available to the next call
// at once. Reservations of the limiters could do neither.
type gate struct {
	rate     Rate
	turn     chan struct{} // held by the call that is next; the runtime serves waiting senders in order
	returned chan struct{} // signals that call that tokens were returned

	mu       sync.Mutex
	requests *rate.Limiter // nil when there is no limit
	tokens   *rate.Limiter // likewise
	heldTill time.Time
	waiting  demand // of all waiting calls together
}

// demand is what calls take from the limits.
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

// enter waits for the turn of a call that needs this many tokens, and returns how many it took.
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

// pass admits a call if the limits allow all of ahead, the demand of the calls before it and its own, and takes own from the limits. Otherwise it
// returns how long the call has to wait, or an error when its deadline comes first. A call that was admitted or got an error no longer counts as
// waiting. The caller holds g.mu.
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
		// Never refused, since enough is available. A rounding error becomes a debt.
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

// leave removes a call from those that wait. g.mu is held.
func (g *gate) leave(own demand) {
	g.waiting.requests -= own.requests
	g.waiting.tokens -= own.tokens
}

// quit is leave for a call whose ctx has ended.
func (g *gate) quit(ctx context.Context, own demand) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(own)
	return fmt.Errorf("wait for the rate limit: %w", ctx.Err())
}

// delay returns how long it takes until l has n tokens.
func delay(l *rate.Limiter, now time.Time, n int) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	// Rounded up, so that the wait is never zero.
	return time.Duration(math.Ceil(missing / float64(l.Limit()) * float64(time.Second)))
}

// settle corrects the tokens taken for a call that used another number.
func (g *gate) settle(taken, used int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens == nil {
		return
	}
	now := time.Now()
	if used < taken {
		g.tokens.ReserveN(now, used-taken) // returns tokens
		select {
		case g.returned <- struct{}{}:
		default:
		}
		return
	}
	// Bound the debt: whatever size an endpoint claims for its answers, the gate must not be closed for longer than maxTurn.
	room := float64(maxTurn/time.Minute)*float64(g.rate.Tokens) + g.tokens.TokensAt(now)
	owed := int(min(float64(used-taken), room))
	for owed > 0 {
		n := min(owed, g.rate.Tokens) // a reservation cannot exceed the burst
		g.tokens.ReserveN(now, n)
		owed -= n
	}
}

// hold admits no calls for d.
func (g *gate) hold(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if till := time.Now().Add(min(d, maxHold)); till.After(g.heldTill) {
		g.heldTill = till
	}
}
