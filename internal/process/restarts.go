package process

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	firstPause = 200 * time.Millisecond
	maxPause   = time.Minute
	steady     = time.Minute // what ran this long is started again without a longer pause
)

// Restarts has the pauses before a program is started again: they grow while it ends soon.
type Restarts struct{ pauses backoff.ExponentialBackOff }

// NewRestarts returns the pauses of a program that was not started again yet.
func NewRestarts() *Restarts {
	r := &Restarts{backoff.ExponentialBackOff{InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.25}}
	r.pauses.Reset()
	return r
}

// Pause returns the pause after the program ran for a time.
func (r *Restarts) Pause(ran time.Duration) time.Duration {
	if ran > steady {
		r.pauses.Reset()
	}
	return r.pauses.NextBackOff()
}
