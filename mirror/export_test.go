package mirror

import "time"

// Impatient makes a mirror tell early that the database does not answer.
func (o *Options) Impatient() { o.patience = 50 * time.Millisecond }
