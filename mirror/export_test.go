package mirror

import "time"

// Impatient makes a mirror tell early that the database does not answer.
func (o *Options) Impatient() { o.patience = 50 * time.Millisecond }

// At makes a mirror take the time from another clock.
func (o *Options) At(now func() time.Time) { o.now = now }
