package mcp

import "time"

// SetListPause sets the time between two lists of the tools of a server that says again and again that they have changed. It is called before Run.
func (a *Agent) SetListPause(d time.Duration) { a.listPause = d }
