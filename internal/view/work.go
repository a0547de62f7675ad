package view

import (
	"context"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// Work is what an agent was given.
type Work struct {
	Open   int // tasks that it works on
	Done   int
	Failed int // also those that it refused; those that were canceled are neither
	P95    time.Duration

	took []time.Duration
}

// Share returns the share of its settled tasks that were done, in percent; false without any.
func (w *Work) Share() (int, bool) {
	if w == nil || w.Done+w.Failed == 0 {
		return 0, false
	}
	return 100 * w.Done / (w.Done + w.Failed), true
}

// WorkOf returns what each agent was given since a time, in the conversations that changed last: most of them, or fewer when ctx ends, which is no
// error then. all reports whether these were all.
func WorkOf(ctx context.Context, r *Reader, since time.Time, most int) (work map[string]*Work, all bool, err error) {
	work = make(map[string]*Work)
	of := func(agent string) *Work {
		w := work[agent]
		if w == nil {
			w = &Work{}
			work[agent] = w
		}
		return w
	}
	n := 0
	all = true
	_, err = Latest(ctx, r, func(conv *conversation.Conversation, updated time.Time) bool {
		if updated.Before(since) {
			return false
		}
		if n++; n > most {
			all = false
			return false
		}
		for _, t := range Remembered(conv) {
			switch {
			case t.State == a2a.TaskStateWorking || t.State == a2a.TaskStateSubmitted:
				of(t.Agent).Open++
			case t.Sent.Before(since):
			case t.State == a2a.TaskStateCompleted:
				w := of(t.Agent)
				w.Done++
				if !t.Settled.IsZero() {
					w.took = append(w.took, t.Settled.Sub(t.Sent))
				}
			case t.State == a2a.TaskStateFailed, t.State == a2a.TaskStateRejected:
				of(t.Agent).Failed++
			}
		}
		return true
	})
	if err != nil && ctx.Err() != nil {
		all, err = false, nil
	}
	for _, w := range work {
		if slices.Sort(w.took); len(w.took) > 0 {
			w.P95 = w.took[min(len(w.took)*95/100, len(w.took)-1)]
		}
		w.took = nil
	}
	return work, all, err
}

// TasksOf returns the tasks of an agent in the conversations that changed last, brief, the last one first, a bounded number.
func TasksOf(ctx context.Context, r *Reader, agent string, since time.Time, most int) (list []Task, err error) {
	_, err = Latest(ctx, r, func(conv *conversation.Conversation, updated time.Time) bool {
		if updated.Before(since) || len(list) >= most && list[most-1].Sent.After(updated) {
			return false
		}
		for _, t := range Remembered(conv) {
			if t.Agent == agent {
				list = append(list, t.Brief())
			}
		}
		slices.SortStableFunc(list, func(a, b Task) int { return b.Sent.Compare(a.Sent) })
		list = list[:min(len(list), most)]
		return true
	})
	if err != nil && ctx.Err() != nil {
		err = nil
	}
	return list, err
}
