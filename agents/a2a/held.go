package a2a

import (
	"fmt"
	"sync"
)

// Bounds of what is held of all peers of this process, in bytes as it is in memory: the outputs of open tasks, and what their streams keep.
const (
	maxHeld   = 128 << 20
	heldShare = 3         // times the bytes that are free, which the peers at a host have at most, so that no host takes all
	maxLittle = 64 << 10  // of a host, which it may have as long as any are free:
	forLittle = 16 << 20  // so many are for nothing else, since some hosts together leave next to none
	pieceHeld = 256       // of a part or an artifact, beside its bytes
	freeEvent = maxLittle // of the longest event of a stream, which do not count
)

// holdings counts what is held, by the host of a peer's card: a list may have many peers that are one. It is safe for concurrent use.
type holdings struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// held is what is held of all peers.
var held = &holdings{of: map[string]int{}}

// take counts n more bytes of a host, or fewer if n is negative. If there is no room for them it counts nothing, and returns an error.
func (h *holdings) take(host string, n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, theirs := h.all+n, h.of[host]+n
	if n > 0 && (all > maxHeld || theirs > maxLittle && theirs > heldShare*(maxHeld-forLittle-all)) {
		return &fullError{host, h.of[host], h.all}
	}
	h.all = all
	if h.of[host] = theirs; theirs == 0 {
		delete(h.of, host)
	}
	return nil
}

// give gives back n bytes.
func (h *holdings) give(host string, n int) { _ = h.take(host, -n) }

// fullError says that there is no room for what a peer says. It is an [errTooMuch], though others may be to blame.
type fullError struct {
	host        string
	theirs, all int
}

func (e *fullError) Error() string {
	return fmt.Sprintf("there is no room for the agent's answer now: the A2A agents of this process have given %d KiB that are not passed on yet, of at most %d, and those at %.100q %d of them; those at one host may have %d times what is free: ask again later",
		e.all>>10, maxHeld>>10, e.host, e.theirs>>10, heldShare)
}

// Is implements the interface of [errors.Is].
func (e *fullError) Is(target error) bool { return target == errTooMuch }
