package conversation

import (
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Phase is the state of a task. The arrows are those of the table phases, which alone says how a task moves:
//
//	decided ─┬────────────────────────▶ Blocked ──▶ Given ──▶ Working
//	         │                             ▲  ▲       │ ▲  again │
//	         └─▶ Held ──── the user's yes ─┘  │       │ └────────┤
//	              ▲                           └─ Asking ◀────────┤
//	              └─ a reply that needs a yes ────┘              ▼
//	                                        Completed, Failed, Canceled, Rejected
//
// A task can end from every phase, and then stays as it is. A task that depends on no other is Given in the entry that makes it Blocked.
type Phase int

const (
	Blocked Phase = iota // waits for the tasks on which it depends
	Held                 // waits for the user's yes
	Given                // was sent to its agent
	Working              // its agent has reported that it is at work
	Asking               // its agent waits for the user's reply
	Completed
	Failed
	Canceled
	Rejected // by its agent, or because it cannot be sent
)

// phases lists the phases to which a task can move from each phase.
var phases = [...][]Phase{
	Blocked:   {Given, Held, Completed, Failed, Canceled, Rejected},
	Held:      {Blocked, Held, Completed, Failed, Canceled, Rejected},
	Given:     {Given, Working, Asking, Completed, Failed, Canceled, Rejected},
	Working:   {Given, Working, Asking, Completed, Failed, Canceled, Rejected},
	Asking:    {Blocked, Held, Completed, Failed, Canceled, Rejected},
	Completed: nil,
	Failed:    nil,
	Canceled:  nil,
	Rejected:  nil,
}

// states are the A2A names of the phases.
var states = [...]a2a.TaskState{
	Blocked: a2a.TaskStateSubmitted, Held: a2a.TaskStateAuthRequired, Given: a2a.TaskStateSubmitted, Working: a2a.TaskStateWorking,
	Asking: a2a.TaskStateInputRequired, Completed: a2a.TaskStateCompleted, Failed: a2a.TaskStateFailed, Canceled: a2a.TaskStateCanceled,
	Rejected: a2a.TaskStateRejected,
}

// phaseOf returns the phase of a task that its agent reports to be in state s.
func phaseOf(s a2a.TaskState) Phase {
	switch s {
	case a2a.TaskStateCompleted:
		return Completed
	case a2a.TaskStateCanceled:
		return Canceled
	case a2a.TaskStateRejected:
		return Rejected
	case a2a.TaskStateInputRequired:
		return Asking
	case a2a.TaskStateWorking:
		return Working
	}
	return Failed
}

// Over reports whether a task has ended.
func (p Phase) Over() bool { return p >= Completed }

// Running reports whether a task is with its agent.
func (p Phase) Running() bool { return p == Given || p == Working }

// Waits reports whether a task waits for its agent or for the user, which has a deadline.
func (p Phase) Waits() bool { return p.Running() || p == Asking || p == Held }

// State returns the A2A name of the task's phase.
func (t *Task) State() a2a.TaskState { return states[t.Phase] }

// move moves the task to another phase, and reports whether the table allows that.
func (t *Task) move(to Phase) bool {
	if !slices.Contains(phases[t.Phase], to) {
		return false
	}
	t.Phase = to
	return true
}
