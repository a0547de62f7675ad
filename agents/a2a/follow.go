package a2a

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// follow goes on with the peer's task until it is settled.
func (w *work) follow(ctx context.Context) (*agents.Result, error) {
	subscribes, pauses := true, pausesFrom(firstPoll, maxPoll)
	for {
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		if w.status(w.last) {
			return w.settle(ctx)
		}
		c, err := w.a.client()
		if err != nil {
			return nil, err
		}
		seen := w.events
		if c.streams && subscribes && w.until.IsZero() {
			req := &a2a.SubscribeToTaskRequest{ID: w.r.Task}
			settled, err := w.listen(w.traced(ctx), func(ctx context.Context) iter.Seq2[a2a.Event, error] { return c.SubscribeToTask(ctx, req) })
			if settled {
				return w.settle(ctx)
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err := w.refused(err); err != nil {
				return nil, err
			}
			if away, _ := isAway(err); err != nil && !away {
				subscribes = false // it cannot, or there is nothing to listen to
			}
		}
		if w.events > seen+1 { // it says more than what is known
			pauses.Reset()
		}
		if err := rest.For(ctx, pauses.NextBackOff()); err != nil {
			return nil, err
		}
	}
}

// pausesFrom returns pauses that double from first to most, each a bit longer or shorter, so that those who wait for the same peer do not all come at once.
func pausesFrom(first, most time.Duration) *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: most, Multiplier: 2, RandomizationFactor: 0.25}
	b.Reset()
	return b
}

// look asks the peer for its task, and waits while the peer is away.
func (w *work) look(ctx context.Context) error {
	w.last.Message = nil // it may be long, and nothing counts it
	none := 0
	for pauses := pausesFrom(firstPoll, maxPoll); ; {
		c, err := w.a.client()
		if err != nil {
			return err
		}
		calling, cancel := context.WithTimeout(w.traced(ctx), callTimeout)
		task, err := c.GetTask(calling, &a2a.GetTaskRequest{ID: w.r.Task, HistoryLength: &none})
		if err == nil {
			defer cancel() // an answer has its room until then, and what is kept of it counts
			if task.ID != w.r.Task {
				return fmt.Errorf("%w: it gives another task", errStrange)
			}
			if err := w.out.set(w.t, task.Artifacts); err != nil {
				return err
			}
			w.last = task.Status
			return nil
		}
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, a2a.ErrTaskNotFound) {
			return errForgotten
		}
		if away, _ := isAway(err); !away {
			return err
		}
		w.a.suspect()
		if err := rest.For(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// Bounds of the search for a task.
const (
	findPages = 10
	findPage  = 20
)

// find looks for the peer's task of the message that was sent, and keeps its id.
func (w *work) find(ctx context.Context, at string) (bool, error) {
	info, err := w.search(ctx, at)
	if err != nil || info.TaskID == "" {
		return false, err
	}
	return true, w.adopt(info)
}

// search looks for the peer's task that has the message that was sent in its history. It returns no id if there is none, or the peer does not list its tasks.
func (w *work) search(ctx context.Context, at string) (a2a.TaskInfo, error) {
	none := a2a.TaskInfo{}
	history := 20
	req := &a2a.ListTasksRequest{ContextID: at, PageSize: findPage, HistoryLength: &history}
	for page, pauses := 0, pausesFrom(firstPoll, maxPoll); page < findPages; {
		c, err := w.a.client()
		if err != nil {
			return none, err
		}
		calling, cancel := context.WithTimeout(w.traced(ctx), callTimeout)
		list, err := c.ListTasks(calling, req)
		cancel()
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		if away, _ := isAway(err); away {
			w.a.suspect()
			if err := rest.For(ctx, pauses.NextBackOff()); err != nil {
				return none, err
			}
			continue
		}
		if err != nil && isTrouble(err) {
			return none, fmt.Errorf("%w; it says: %w", errUnknown, err)
		}
		if err != nil { // it cannot list them
			return none, nil
		}
		for _, task := range list.Tasks {
			if task == nil {
				continue
			}
			for _, m := range task.History {
				if m != nil && m.ID == w.r.Sent && task.ID != "" {
					return task.TaskInfo(), nil
				}
			}
		}
		page++
		pauses.Reset()
		if req.PageToken = list.NextPageToken; req.PageToken == "" {
			break
		}
	}
	return none, nil
}
