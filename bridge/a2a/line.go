package a2a

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	tryFirst = time.Second // pause after a notification was not taken; it doubles
	tryMost  = 10 * time.Minute
	giveUp   = 24 * time.Hour // a receiver that takes nothing is tried so long
	// giveUpLeast is how often it is tried at least by a process that gives it up: the clock may have gone forward.
	giveUpLeast = 10
	lookFirst   = 50 * time.Millisecond
	lookMost    = 30 * time.Second // a task is looked at so often when nothing is heard of it
	slowPost    = 5 * time.Second  // for the note to say what was taken, when the process ends
)

// line pushes the events of one task to one config, one after the other.
type line struct {
	s    *Server
	c    *caller
	task a2a.TaskID
	key  string // of the note
	id   string // of the config
	made time.Time

	began   time.Time
	stop    func()
	ending  bool          // it makes room for one of another person
	woken   chan struct{} // has a value when something may have happened
	changed chan struct{} // has a value when its client has made it anew
	fails   int           // attempts that failed one after the other
	stuck   int           // the same, by the store
	version conversation.Version
}

func (s *Server) newLine(n *pushNote, t *target) *line {
	return &line{
		s: s, c: s.pushCaller(n), task: n.Task, key: n.key, id: t.ID, made: t.Made,
		began: time.Now(), woken: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

// look has the line go on at once if the config was made anew.
func (l *line) look(t *target) {
	if !t.Made.Equal(l.made) {
		l.made = t.Made
		signal(l.changed)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stuckPatience is how long a store that answers may not tell what is to be pushed before it is a warning.
const stuckPatience = time.Minute

// State of a line after it has pushed what there was.
type lineState int

const (
	lineWaits  lineState = iota // for more to happen
	lineFailed                  // the receiver takes nothing now
	lineDone                    // nothing is left to do
)

// run pushes until nothing is left, or ctx ends.
func (l *line) run(ctx context.Context) {
	if l.c.place(l.task) == "" { // of another tenant's, or of an older build's making
		return
	}
	end := l.listen(ctx)
	defer end()
	var failing rest.Failing
	for look := lookFirst; ctx.Err() == nil; {
		state, pause, err := l.push(ctx)
		switch {
		case ctx.Err() != nil || state == lineDone:
			return
		case err != nil: // the store's: nothing was tried
			if !errors.Is(err, transport.ErrUnavailable) && failing.Tell(err, stuckPatience) {
				l.s.cfg.Logger.Warn("what happened in a task cannot be read, and is not pushed until it can", "task_id", string(l.task), "err", err)
			}
			l.s.cfg.Logger.Debug("push notifications wait for the store", "task_id", string(l.task), "err", err)
			state, pause = lineFailed, min(pauseAfter(l.stuck, l.s.outbox.push.Random()), lookMost)
			l.stuck++
		default:
			failing.Tell(nil, stuckPatience)
			l.stuck = 0
		}
		if state == lineFailed {
			l.retry(ctx, pause)
			look = lookFirst
			continue
		}
		if l.wait(ctx, look) {
			look = lookFirst
		} else {
			look = min(2*look, lookMost)
		}
	}
}

// place returns the conversation of a task; "" for no task of the caller's.
func (c *caller) place(id a2a.TaskID) string {
	contextID, _, _ := c.locate(id)
	return contextID
}

// listen has what happens to the conversation wake the line, until the function is called. Pieces of text and progress are not in the log.
func (l *line) listen(ctx context.Context) func() {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		_ = l.c.Listen(ctx, l.c.place(l.task), func(e *transport.Event) { // the task is looked at now and then anyway
			if _, ok := e.Payload.(*transport.Delta); !ok && e.From == transport.Cortex {
				signal(l.woken)
			}
		})
	})
	return func() {
		stop()
		running.Wait()
	}
}

// wait returns when something may have happened to the task, with true if something was heard; at least after a time, if the log has gone on.
func (l *line) wait(ctx context.Context, d time.Duration) (heard bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.woken:
		return rest.For(ctx, wakeLeast) == nil
	case <-l.changed:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

// retry waits before another attempt; not when the config was made anew.
func (l *line) retry(ctx context.Context, d time.Duration) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		select {
		case <-l.changed:
			l.fails = 0
			stop()
		case <-ctx.Done():
		}
	})
	_ = l.s.outbox.push.Rest(ctx, d)
}

// news reports whether the log has entries that the line has not seen.
func (l *line) news(ctx context.Context) (bool, error) {
	if l.version == 0 {
		return true, nil
	}
	for _, err := range l.s.cfg.Store.Load(ctx, l.c.Tenant, l.c.place(l.task), l.version) {
		return err == nil, err
	}
	return false, nil
}
