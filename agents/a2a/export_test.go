package a2a

import "context"

// CancelDue cancels what is due now, as [Agent.Run] does now and then. It reports whether some of it is left.
func (a *Agent) CancelDue(ctx context.Context) (left bool) { return a.cancelDue(ctx) }

// Held returns how many bytes are held of all peers.
func Held() int {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.all
}

// Fill leaves no more than free bytes for what is held, until the function is called.
func Fill(free int) (empty func()) {
	n := maxHeld - free - Held()
	held.mu.Lock()
	defer held.mu.Unlock()
	held.all += n
	return func() {
		held.mu.Lock()
		defer held.mu.Unlock()
		held.all -= n
	}
}
