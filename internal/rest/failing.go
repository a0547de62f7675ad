package rest

import (
	"sync"
	"time"
)

// Failing tells when what is tried again and again has failed for so long that it is to be told, once until it succeeds. The zero value is ready. It is safe
// for concurrent use.
type Failing struct {
	mu    sync.Mutex
	since time.Time // of the first error in a row; zero: there is none
	told  bool
}

// Tell notes the outcome of an attempt. It reports whether all attempts of this time have failed, and that was not told.
func (f *Failing) Tell(err error, patience time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.since, f.told = time.Time{}, false
		return false
	}
	now := time.Now()
	if f.since.IsZero() {
		f.since = now
	}
	if f.told || now.Sub(f.since) < patience {
		return false
	}
	f.told = true
	return true
}
