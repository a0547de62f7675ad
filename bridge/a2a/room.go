package a2a

import (
	"context"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// Bounds of the files, in bytes, that are in answers which have not been written to their end. An answer takes several times as much while it is encoded.
const (
	mostAnswered = 128 << 20
	ownAnswered  = 64 << 20 // of a user
	answerTime   = 10 * time.Second
	answerPause  = 20 * time.Millisecond
)

// Bounds of what decoded messages take, in bytes, whose calls have not been answered to their end.
const (
	mostAsked = 512 << 20
	ownAsked  = 128 << 20 // of a user
)

// Bounds of what bodies of requests take, in bytes, that are arriving.
const (
	mostArriving = 256 << 20
	ownArriving  = 64 << 20 // of a user
)

// TooMuch is what a caller is told for whose message there is no room.
const TooMuch = "too much of yours, or of all, is being worked at: send it again when some of it has been answered"

// budget counts bytes, by user.
type budget struct {
	most, own int64

	mu  sync.Mutex
	all int64
	of  map[string]int64
}

// held is what a call takes of the budgets: for its answer, and for its message.
type held struct {
	mu       sync.Mutex
	n, asked int64
	over     bool      // the call is: nothing is reserved for it any more
	until    time.Time // what is reserved for its answer is waited for until then, all of it together

	decoded func() // is called when the message has been decoded; nil: nobody waits for that
}

// size returns what the message takes.
func (h *held) size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// waits returns until when the call waits for room.
func (h *held) waits() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		h.until = time.Now().Add(answerTime)
	}
	return h.until
}

func (a *budget) add(user string, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > 0 && (a.all+n > a.most || a.of[user]+n > a.own) {
		return false
	}
	if a.of == nil {
		a.of = map[string]int64{}
	}
	a.all += n
	if a.of[user] += n; a.of[user] == 0 {
		delete(a.of, user)
	}
	return true
}

// take reserves n bytes for the answer of a call, until [Server.Done]. It waits for a while for the answers before it: once for a call, as others may wait
// for what it has.
func (s *Server) take(ctx context.Context, c *caller, n int64) bool {
	if ctx.Err() != nil {
		return false
	}
	for !s.answering.add(c.user(), n) {
		limit, end := context.WithDeadline(ctx, c.held.waits())
		err := rest.For(limit, answerPause)
		end()
		if err != nil {
			return false
		}
	}
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	if c.held.over {
		s.answering.add(c.user(), -n)
		return false
	}
	c.held.n += n
	return true
}

// giveBack ends what take reserved for something that is not in the answer.
func (s *Server) giveBack(c *caller, n int64) {
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	if n = min(n, c.held.n); n > 0 {
		c.held.n -= n
		s.answering.add(c.user(), -n)
	}
}

// Hold reserves n bytes for the message of a call, until [Server.Done]: a call that waits keeps its message. It returns false when too many of the
// caller's messages, or of all, are kept.
func (s *Server) Hold(ctx context.Context, n int) bool {
	c, err := callerOf(ctx)
	if err != nil || !s.asking.add(c.user(), int64(n)) {
		return false
	}
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	c.held.asked += int64(n)
	return true
}

// sender returns the client that sends the message of b. A large one waits until the one before it of its sender is stored, and over is called for it then: few large
// messages at a time are on their way to the store, and what Cortex says to agents would wait behind all of somebody with many connections. It returns false when that
// takes too long.
func (s *Server) sender(ctx context.Context, c *caller, b *begun) (own client.Client, over func(), ok bool) {
	if b.size <= httpserver.LargeBody {
		return *c.Client, func() {}, true
	}
	if !s.sending.Take(ctx, c.user(), 1) {
		return client.Client{}, nil, false
	}
	return *c.Client, sync.OnceFunc(func() { s.sending.Give(c.user(), 1) }), true
}

// Done is to be called when a call whose context is from [Server.With] has been answered to its end.
func (s *Server) Done(ctx context.Context) {
	c, err := callerOf(ctx)
	if err != nil {
		return
	}
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	s.answering.add(c.user(), -c.held.n)
	s.asking.add(c.user(), -c.held.asked)
	c.held.n, c.held.asked, c.held.over = 0, 0, true
}
