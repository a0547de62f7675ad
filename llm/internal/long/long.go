// Package long bounds what long answers of endpoints take in all calls of this process together, since there may be thousands: the memory of their long
// pieces, such as lines, each of which has a bound of its own, the pace at which they are read, and how long they are waited for to end.
package long

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds in bytes.
const (
	small = 256 << 10 // of pieces that do not count: hardly any is longer
	most  = 64 << 20  // of all that are longer
)

// ErrTooMany is the error of a piece for which no memory is left.
var ErrTooMany = errors.New("too many big answers are read at this moment")

// counted is the length of all pieces that count.
var counted atomic.Int64

// rest is how long a complete answer is waited for to end.
const rest = time.Second

// Rest returns what a call does when its answer is complete, once or more often: stop is called after a moment, in which come what follows the answer, such as
// its usage, and the end of the response. Some endpoints leave their connections open for ever, and not all protocols say what comes last.
func Rest(stop func()) (complete func()) {
	return sync.OnceFunc(func() { time.AfterFunc(rest, stop) })
}

// Piece is what is read in one piece. The zero value is an empty one. It is for one goroutine.
type Piece struct{ counted int }

// Grow notes that the piece now has size bytes. It returns [ErrTooMany] when there is no memory for that.
func (p *Piece) Grow(size int) error {
	more := size - p.counted
	if size <= small || more <= 0 {
		return nil
	}
	if counted.Add(int64(more)) > most {
		counted.Add(-int64(more))
		return ErrTooMany
	}
	p.counted = size
	return nil
}

// End notes that nothing of the piece is held any more.
func (p *Piece) End() {
	if p.counted > 0 {
		counted.Add(-int64(p.counted))
		p.counted = 0
	}
}
