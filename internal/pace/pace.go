// Package pace reads what strangers send at a pace: who sends without a pause would otherwise take the processors from everybody else.
package pace

import (
	"context"
	"io"
	"time"

	"golang.org/x/time/rate"
)

// piece bounds what is read at a time, in bytes, so that bodies that are read at the same moment take turns.
const piece = 16 << 10

// Pace bounds how many bytes a second are read of all its bodies together. It is safe for concurrent use.
type Pace struct {
	free    int
	limiter *rate.Limiter
}

// New returns a pace of perSecond bytes a second, at least 16 KiB, and as many at once. The first free bytes of each body do not count, so that who says
// little never waits for those who say much.
func New(perSecond, free int) *Pace {
	perSecond = max(perSecond, piece)
	return &Pace{free: free, limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// Wait waits for the turn of n bytes that have been read already, of a message of which no more is read meanwhile. It returns the error of ctx when that ends.
func (p *Pace) Wait(ctx context.Context, n int) error {
	for n > 0 && ctx.Err() == nil {
		some := min(n, p.limiter.Burst())
		pause(ctx, p.limiter.ReserveN(time.Now(), some).Delay())
		n -= some
	}
	return ctx.Err()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Body returns body, read at the pace. A Read that waits ends when ctx does, with ctx's error, and when the body is closed.
func (p *Pace) Body(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	ctx, end := context.WithCancel(ctx)
	return &paced{ReadCloser: body, pace: p, free: p.free, ctx: ctx, end: end}
}

type paced struct {
	io.ReadCloser
	pace *Pace
	free int
	ctx  context.Context //nolint:containedctx // of the request that body answers
	end  context.CancelFunc
}

// Read implements [io.Reader].
func (b *paced) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), piece)])
	over := max(n-b.free, 0)
	b.free = max(b.free-n, 0)
	if over == 0 || err != nil {
		return n, err
	}
	if wait := b.pace.limiter.ReserveN(time.Now(), over).Delay(); wait > 0 {
		pause(b.ctx, wait)
		return n, b.ctx.Err()
	}
	return n, nil
}

// Close implements [io.Closer].
func (b *paced) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
