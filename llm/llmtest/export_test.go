package llmtest

import "time"

// Impatient returns w for a client that is known to fail: the suite waits at most d.
func Impatient(w Wire, d time.Duration) Wire {
	w.patience = d
	return w
}
