package a2a

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// An orphan is a task of the peer for which nobody waits any more: it was canceled, or its deadline passed, while the peer, this agent or Cortex was away,
// or before the peer had named it. Cancellations are live, and a task that was canceled is not delivered again, so nothing but the journal knows of it: by it
// Cortex is asked whether the task is still wanted.

const (
	orphanEach  = time.Minute              // how often the journal is read without a reason
	orphanFirst = time.Second              // before an orphan that could not be canceled is tried again
	orphanSlack = time.Minute              // after its deadline, for clocks that differ
	orphanFind  = time.Minute              // how long a task that has no name is looked for: its message may still be on its way
	noDeadline  = 24 * time.Hour           // for a task that says no deadline
	askedFor    = records.Age - noDeadline // for a question of the peer
	orphanFor   = 24 * time.Hour           // how long a peer that will not cancel a task is asked again
	orphanTime  = 30 * time.Second         // for one attempt

	orphansAtOnce = 4
)

// latest returns when nobody waits for a task any more, by this machine's clock.
func latest(t *agents.Task, now time.Time) time.Time {
	until := t.Deadline
	if until.IsZero() {
		return now.Add(noDeadline)
	}
	due, err := time.Parse(time.RFC3339Nano, transport.MetaString(t.Message, transport.MetaDeadline))
	last, err2 := time.Parse(time.RFC3339Nano, transport.MetaString(t.Message, transport.MetaLatest))
	if err == nil && err2 == nil && last.After(due) { // progress moves the deadline so far
		until = until.Add(last.Sub(due))
	}
	return until.Add(orphanSlack)
}

// opened takes note that the peer may be at work on a task. The file has nothing to read and is not synced: its record is.
func (j *journal) opened(t *agents.Task) error {
	return j.open.Mark(j.open.Path(t.Tenant, t.ContextID, t.ID), records.Owner(t))
}

// closed takes note that the peer has ended a task. A task of which this is not known, after an error or a power failure, is canceled in vain.
func (j *journal) closed(t *agents.Task) { _ = os.Remove(j.open.Path(t.Tenant, t.ContextID, t.ID)) }

// enter takes note that a task is worked on, until the function is called.
func (a *Agent) enter(t *agents.Task) (leave func()) {
	name := filepath.Base(a.journal.File(t))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy[name]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.busy[name]--; a.busy[name] == 0 {
			delete(a.busy, name)
		}
	}
}

// leave ends the work on a task that enter began, and only then has [Agent.Run] see to it if it was left: it does nothing for a task that is worked on.
func (w *work) leave(entered func()) {
	entered()
	if !w.left {
		return
	}
	select {
	case w.a.orphan <- struct{}{}:
	default:
	}
}

// Canceled implements [agents.Canceler]: the peer's task of which the question will not be answered is canceled soon.
func (a *Agent) Canceled(tenant, contextID string, id a2a.TaskID) {
	t := &agents.Task{Tenant: tenant, ContextID: contextID, ID: id}
	r, err := a.journal.Read(t)
	if err == nil && r == nil || a.isBusy(filepath.Base(a.journal.Path(tenant, contextID, id))) {
		return // it was never given to the peer, or a reply has come, and the work on it is told
	}
	if err == nil {
		r.Until = time.Now()
		err = a.journal.Write(t, r)
	}
	if err != nil {
		a.log.Warn("task may not be canceled", "task_id", id, "err", err)
		return
	}
	select {
	case a.orphan <- struct{}{}:
	default:
	}
}

// Kept implements [agents.Keeper]: the tasks that the peer may be at work on, or for which it waits for a reply, while nobody works on them here.
func (a *Agent) Kept() []agents.KeptTask {
	entries, err := os.ReadDir(a.journal.open.Dir)
	if err != nil {
		a.log.Warn("tasks that were left are unknown", "err", err)
	}
	var all []agents.KeptTask
	for _, e := range entries {
		r := &record{}
		ok, err := taskfile.ReadRecord(filepath.Join(a.journal.Dir, e.Name()), maxRecord, r)
		if ok && err == nil && r.Of.ID != "" && !a.isBusy(e.Name()) && time.Now().Before(r.Until) {
			all = append(all, r.Of)
		}
	}
	return all
}

// abandon cancels a task for which nobody waits any more, now or as soon as that is possible.
func (w *work) abandon(ctx context.Context) {
	if w.r == nil || w.r.Answer != nil {
		return
	}
	w.r.Until = time.Now()
	if err := w.keep(); err != nil {
		w.a.log.Warn("task may not be canceled", "task_id", w.t.ID, "err", err)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if done, err := w.cancel(ctx); done {
		w.a.journal.closed(w.t)
		return
	} else if err != nil {
		w.a.log.Info("task not canceled yet", "task_id", w.t.ID, "err", w.a.credentials().hide(plainURL(err).Error()))
	}
	w.left = true
}

// cancel asks the peer to stop. done is false if that is to be tried again. What the peer does about it is seen by whoever asks for the task again.
func (w *work) cancel(ctx context.Context) (done bool, err error) {
	c, err := w.a.client()
	if err != nil {
		return false, err
	}
	id := w.r.Task
	if id == "" {
		found, err := w.search(ctx, "")
		if id = found.TaskID; err != nil || id == "" {
			sought := time.Since(w.r.Until)
			return err == nil && sought > orphanFind || sought > orphanFor, err
		}
	}
	_, err = c.CancelTask(w.traced(ctx), &a2a.CancelTaskRequest{ID: id})
	if err == nil || errors.Is(err, a2a.ErrTaskNotCancelable) || errors.Is(err, a2a.ErrTaskNotFound) {
		return true, nil
	}
	if !isTrouble(err) || time.Since(w.r.Until) > orphanFor {
		w.a.log.Warn("task not canceled", "task_id", w.t.ID, "err", w.a.credentials().hide(plainURL(err).Error()))
		return true, nil
	}
	return false, err
}

// isTrouble reports whether a peer that answers so may answer otherwise later: it is away, has a problem of its own, or does not know its caller just now.
func isTrouble(err error) bool {
	away, _ := isAway(err)
	return away || errors.Is(err, a2a.ErrInternalError) || errors.Is(err, a2a.ErrServerError) || errors.Is(err, a2a.ErrUnauthenticated) || errors.Is(err, a2a.ErrUnauthorized)
}

// cancelOrphans cancels orphans until ctx ends.
func (a *Agent) cancelOrphans(ctx context.Context) {
	pauses := pausesFrom(orphanFirst, orphanEach)
	for wait := orphanFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-a.orphan:
			pauses.Reset()
		case <-time.After(wait):
		}
		if left := a.cancelDue(ctx); left {
			wait = pauses.NextBackOff()
		} else {
			pauses.Reset()
			wait = orphanEach
		}
	}
}

// cancelDue cancels the orphans that there are, and reports whether one is left. Some are canceled at the same time, as the peer may not answer for one of them only. When
// it seems to be away, no others are begun, which would wait as long for nothing: they come first the next time.
func (a *Agent) cancelDue(ctx context.Context) (left bool) {
	entries, err := os.ReadDir(a.journal.open.Dir)
	if err != nil {
		a.log.Warn("tasks that were left are not canceled", "err", err)
		return false
	}
	next := slices.IndexFunc(entries, func(e os.DirEntry) bool { return e.Name() > a.lastOrphan })
	var all sync.WaitGroup
	places := make(chan struct{}, orphansAtOnce)
	var some, away atomic.Bool // are left; the peer is
	for _, e := range slices.Concat(entries[max(next, 0):], entries[:max(next, 0)]) {
		places <- struct{}{} // first: until there is one, the task may be taken up again
		r := &record{}
		ok, err := taskfile.ReadRecord(filepath.Join(a.journal.Dir, e.Name()), maxRecord, r)
		if a.isBusy(e.Name()) || ok && time.Now().Before(r.Until) {
			<-places
			continue // it may be delivered again
		}
		if away.Load() || ctx.Err() != nil {
			some.Store(true)
			break
		}
		a.lastOrphan = e.Name()
		all.Go(func() {
			defer func() { <-places }()
			done := !ok || err != nil
			if !done {
				calling, stop := context.WithTimeout(ctx, orphanTime)
				defer stop()
				done, err = (&work{a: a, t: &agents.Task{Tenant: r.Of.Tenant, ContextID: r.Of.ContextID, ID: r.Of.ID}, r: r}).cancel(calling)
			}
			if !done {
				some.Store(true)
				if is, _ := isAway(err); is {
					away.Store(true)
				}
				return
			}
			if err != nil {
				a.log.Warn("task that was left is not canceled", "task_id", r.Of.ID, "record", e.Name(), "err", a.credentials().hide(plainURL(err).Error()))
			}
			a.drop(e.Name())
		})
	}
	all.Wait()
	return some.Load()
}

func (a *Agent) isBusy(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy[name] > 0
}

// drop removes the mark of a task that was canceled, unless it is worked on again.
func (a *Agent) drop(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[name] == 0 {
		_ = os.Remove(filepath.Join(a.journal.open.Dir, name))
	}
}
