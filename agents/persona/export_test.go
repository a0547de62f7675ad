package persona

import "time"

// SetClock replaces the clock of what the agent remembers.
func (a *Agent) SetClock(now func() time.Time) { a.memory.now = now }

// Grep lists the lines below dir that match a pattern.
var Grep = grep
