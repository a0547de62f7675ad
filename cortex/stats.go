package cortex

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/cortex-orchestrator/cortex/cortex/decide"
)

// counters count what an Orchestrator did since it was made.
type counters struct {
	Entries, Tasks, Retries, Ignored, Refused, Conflicts, CutOff, Redelivered, Gained, Lost atomic.Int64
	Unsent                                                                                  struct{ Full, TooLarge, Invalid atomic.Int64 }
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

	Redelivered int64         // events that came again after their entry was stored
	Denied      decide.Denied // by the policy
	Unsent      Unsent        // events that the transport refused for good
	Gained      int64         // partitions taken over
	Lost        int64         // partitions that another process has taken over, or that were given up
}

// Unsent are counts of what could not be sent, by why.
type Unsent struct {
	Full     int64 // the agent's inbox was
	TooLarge int64
	Invalid  int64
}

// Stats returns the counts. It is safe for concurrent use.
func (o *Orchestrator) Stats() Stats {
	s := &o.stats
	decisions, failures := o.maker.Counts()
	return Stats{
		Entries: s.Entries.Load(), Decisions: decisions, Failures: failures, Tasks: s.Tasks.Load(),
		Retries: s.Retries.Load(), Ignored: s.Ignored.Load(), Refused: s.Refused.Load(), Conflicts: s.Conflicts.Load(),
		Redelivered: s.Redelivered.Load(), Denied: o.maker.Denied(), Gained: s.Gained.Load(), Lost: s.Lost.Load(),
		Unsent: Unsent{Full: s.Unsent.Full.Load(), TooLarge: s.Unsent.TooLarge.Load(), Invalid: s.Unsent.Invalid.Load()},
	}
}

// countOwned counts the partitions that come and go when those that are owned change.
func (o *Orchestrator) countOwned(before, after []int) {
	for _, p := range after {
		if !slices.Contains(before, p) {
			o.stats.Gained.Add(1)
		}
	}
	for _, p := range before {
		if !slices.Contains(after, p) {
			o.stats.Lost.Add(1)
		}
	}
}

// Deciding returns how many decisions are being made now, and how many turns wait for one. It is safe for concurrent use.
func (o *Orchestrator) Deciding() (deciding, waiting int) { return o.maker.Deciding() }

// BudgetLeft returns which part of the day's budget is left, from 0 to 1: of its tokens or its cost, whichever is less. ok is false when there is no
// budget of the day. It may ask the store.
func (o *Orchestrator) BudgetLeft(ctx context.Context) (left float64, ok bool, err error) {
	return o.spending.Left(ctx)
}
