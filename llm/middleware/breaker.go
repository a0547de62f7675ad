package middleware

import (
	"sync"
	"time"
)

const (
	breakAfter = 3                // failures in a row
	breakFor   = 30 * time.Second // after which one call tries the client
)

// breaker records whether a client fails. The zero value is ready to use. It is safe for concurrent use.
type breaker struct {
	mu       sync.Mutex
	failures int       // in a row
	till     time.Time // when failures >= breakAfter: the end of the client's exclusion
	trying   bool      // a trial call is under way
}

// outcome is what a call shows about its client.
type outcome int

const (
	unknown outcome = iota
	works
	fails
	silent // failed after a long silence
)

// admit reports whether to call the client, and whether the call is a trial, whose result other calls wait for.
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

// report records the result of a call, and returns whether it excludes the client from now on.
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
