package cortex

import "sync/atomic"

// counters count what an Orchestrator did since it was made.
type counters struct {
	Entries, Tasks, Retries, Ignored, Refused, Conflicts, CutOff atomic.Int64
}

// Stats are counts since the Orchestrator was made.
type Stats struct {
	Entries   int64 // entries added to logs
	Decisions int64 // calls of the decider
	Failures  int64 // calls of the decider without a decision
	Tasks     int64 // tasks sent, repetitions included
	Retries   int64 // attempts at tasks after the first one
	Ignored   int64 // events that changed nothing: unknown task, second or late result, result from another agent
	Refused   int64 // events given up (now dead letters) and refused messages
	Conflicts int64 // appends that conflicted
}

// Stats returns the counts. It is safe for concurrent use.
func (o *Orchestrator) Stats() Stats {
	s := &o.stats
	decisions, failures := o.maker.Counts()
	return Stats{
		Entries: s.Entries.Load(), Decisions: decisions, Failures: failures, Tasks: s.Tasks.Load(),
		Retries: s.Retries.Load(), Ignored: s.Ignored.Load(), Refused: s.Refused.Load(), Conflicts: s.Conflicts.Load(),
	}
}
