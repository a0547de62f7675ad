package a2a

import "context"

// CancelDue cancels what is due now, as [Agent.Run] does now and then. It reports whether some of it is left.
func (a *Agent) CancelDue(ctx context.Context) (left bool) { return a.cancelDue(ctx) }
