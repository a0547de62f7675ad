package middleware

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// gate admits calls as its limits allow, by turns of those for whom they are made, see [llm.WithRequester], and of one of them in the order in which they
// arrive.
//
// A waiting call has taken nothing from the limiters: when it gives up, nothing has to be undone, and returned tokens are available to the next call
// at once. Reservations of the limiters could do neither.
type gate struct {
	rate     Rate
	returned chan struct{} // signals the call that is next that tokens were returned

	mu       sync.Mutex
	requests *rate.Limiter // nil when there is no limit
	tokens   *rate.Limiter // likewise
	heldTill time.Time
	waiting  map[string]*line // by requester
	order    []*line          // those with calls that wait for their turn; the next one first
	turn     *line            // a call of it has the turn: it is next; or nil
}

// line is the calls of a requester that wait.
type line struct {
	of     string
	demand                 // of all of them, also of one that has the turn
	turns  []chan struct{} // of those that wait for it; each is closed when it comes
}

// demand is what calls take from the limits.
type demand struct{ requests, tokens int }

func newGate(r Rate) *gate {
	g := &gate{rate: r, returned: make(chan struct{}, 1), waiting: map[string]*line{}}
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
	l := g.join(llm.Requester(ctx), own)
	passed, _, err := g.pass(ctx, l, own, g.ahead(l))
	if passed || err != nil {
		g.mu.Unlock()
		return own.tokens, err
	}
	turn := make(chan struct{})
	if l.turns = append(l.turns, turn); len(l.turns) == 1 && l != g.turn {
		g.order = append(g.order, l)
	}
	g.next()
	g.mu.Unlock()

	select {
	case <-turn:
	case <-ctx.Done():
		if g.giveUp(l, turn) {
			return 0, g.quit(ctx, l, own)
		}
		// Its turn came at the same time.
	}
	defer g.done()
	for {
		g.mu.Lock()
		passed, wait, err := g.pass(ctx, l, own, own)
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
			return 0, g.quit(ctx, l, own)
		}
	}
}

// join counts a call as one that waits. g.mu is held.
func (g *gate) join(requester string, own demand) *line {
	l := g.waiting[requester]
	if l == nil {
		l = &line{of: requester}
		g.waiting[requester] = l
	}
	l.requests += own.requests
	l.tokens += own.tokens
	return l
}

// ahead returns the demand of the last call of l, and of those before it: all others of l, and about as many of each of the others. g.mu is held.
func (g *gate) ahead(l *line) demand {
	sum := l.demand
	for _, o := range g.waiting {
		if n := min(o.requests, l.requests); o != l {
			sum.requests += n
			sum.tokens += int(float64(o.tokens) * float64(n) / float64(o.requests))
		}
	}
	return sum
}

// next gives the turn to the next call, if no call has it. g.mu is held.
func (g *gate) next() {
	if g.turn != nil || len(g.order) == 0 {
		return
	}
	l := g.order[0]
	close(l.turns[0])
	g.turn, g.order, l.turns = l, g.order[1:], l.turns[1:]
}

// done ends the turn of a call. The next one of its requester comes behind those of all others who wait.
func (g *gate) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.turn; len(l.turns) > 0 {
		g.order = append(g.order, l)
	}
	g.turn = nil
	g.next()
}

// giveUp removes a turn that has not come, and reports whether it was there.
func (g *gate) giveUp(l *line, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(l.turns, turn)
	if i < 0 {
		return false
	}
	if l.turns = slices.Delete(l.turns, i, i+1); len(l.turns) == 0 {
		g.order = slices.DeleteFunc(g.order, func(o *line) bool { return o == l })
	}
	return true
}

// pass admits a call of l if the limits allow all of ahead, the demand of the calls before it and its own, and takes own from the limits. Otherwise it
// returns how long the call has to wait, or an error when its deadline comes first. A call that was admitted or got an error no longer counts as
// waiting. The caller holds g.mu.
func (g *gate) pass(ctx context.Context, l *line, own, ahead demand) (passed bool, wait time.Duration, err error) {
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
	g.leave(l, own)
	return passed, 0, err
}

// leave removes a call from those that wait. g.mu is held.
func (g *gate) leave(l *line, own demand) {
	l.requests -= own.requests
	l.tokens -= own.tokens
	if l.requests == 0 {
		delete(g.waiting, l.of)
	}
}

// quit is leave for a call whose ctx has ended.
func (g *gate) quit(ctx context.Context, l *line, own demand) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(l, own)
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
