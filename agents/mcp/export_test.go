package mcp

import (
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
)

// SetListPause sets the time between two lists of the tools of a server that says again and again that they have changed. It is called before Run.
func (a *Agent) SetListPause(d time.Duration) { a.listPause = d }

// SetWithdrawnTime sets how long a call may go on when its server has withdrawn its question. It is called before the first call.
func (a *Agent) SetWithdrawnTime(d time.Duration) { a.withdrawnTime = d }

// Waiting reports whether a task's call waits for the user, and whether its server waits for the answer.
func (a *Agent) Waiting(t *agents.Task) (parked, asked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parked[a.journal.File(t)]
	if p == nil {
		return false, false
	}
	select {
	case <-p.question.over:
		return true, false
	default:
		return true, true
	}
}

// Ended returns how many calls that wait for the user have ended.
func (a *Agent) Ended() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.parked {
		select {
		case <-p.call.done:
			n++
		default:
		}
	}
	return n
}

// Age has the calls that wait for the user have waited for longer.
func (a *Agent) Age(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.parked {
		p.since = p.since.Add(-d)
	}
}
