package middleware

import (
	"sync"
	"time"
)

const (
	breakAfter = 3                // failures in a row
	breakFor   = 30 * time.Second // then one call tries
)

// breaker remembers whether a client fails. The zero value is one that does not. It is safe for concurrent use.
type breaker struct {
	mu       sync.Mutex
	failures int       // in a row
	till     time.Time // when failures >= breakAfter: until when the client is left out
	trying   bool      // a call tries whether it works again
}

// outcome is what a call says about its client.
type outcome int

const (
	unknown outcome = iota
	works
	fails
	silent // and took long for it
)

// admit reports whether to ask the client, and whether that call is the trial on which the others wait.
func (b *breaker) admit() (ok, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failures < breakAfter:
		return true, false
	case b.trying || time.Now().Before(b.till):
		return false, false
	}
	b.trying = true
	return true, true
}

// report tells how a call ended, and returns whether that is why the client is left out from now on.
func (b *breaker) report(o outcome, trial bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.trying = false
	}
	switch o {
	case works:
		b.failures = 0
	case fails, silent:
		was := b.failures
		b.failures++
		if o == silent {
			b.failures = max(b.failures, breakAfter)
		}
		if b.failures >= breakAfter {
			b.till = time.Now().Add(breakFor)
			return was < breakAfter
		}
	}
	return false
}
