package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// worklog prints a line when an agent takes a task, and a line when the task ends.
type worklog struct {
	agents.Executor
	name string
	say  func(format string, args ...any)
	open *atomic.Int32 // tasks that have begun and not ended
	done *atomic.Int32 // and that have ended
}

func newWorklog(x agents.Executor, name string, say func(format string, args ...any)) worklog {
	return worklog{x, name, say, new(atomic.Int32), new(atomic.Int32)}
}

// leaving says what becomes of the tasks of an agent that leaves, and has grace to end them.
func (w worklog) leaving(grace time.Duration) {
	switch n := w.open.Load(); {
	case n == 1:
		w.say("%s leaves when its task is done; after %v it is given back, for another instance or the next start", w.name, grace)
	case n > 1:
		w.say("%s leaves when its %d tasks are done; after %v they are given back, for another instance or the next start", w.name, n, grace)
	}
}

// Bounds of the texts about a task and its failure, in characters.
const (
	maxTaken = 60
	maxEnded = 120
)

// Execute implements [agents.Executor].
func (w worklog) Execute(ctx context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		w.open.Add(1)
		defer func() {
			w.open.Add(-1)
			w.done.Add(1)
		}()
		began, id := time.Now(), fmt.Sprintf("%.8s", t.ID)
		again := ""
		if t.Delivery > 1 {
			again = " again"
		}
		w.say("%s takes %s%s: %s, %s", w.name, id, again, bytesText(t.Message.Parts), prompt.Clean(t.Text(), maxTaken))
		how := "stopped"
		defer func() { w.say("%s ends %s: %.1f s, %s", w.name, id, time.Since(began).Seconds(), how) }()
		for e, err := range w.Executor.Execute(ctx, t) {
			switch {
			case errors.Is(context.Cause(ctx), agents.ErrCanceled):
				how = "canceled"
			case errors.Is(context.Cause(ctx), agents.ErrStopping) && err != nil:
				how = "given back"
			case err != nil:
				how = "failed: " + prompt.Clean(err.Error(), maxEnded)
			default:
				how = ended(t, e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Canceled implements [agents.Canceler].
func (w worklog) Canceled(tenant, contextID string, id a2a.TaskID) {
	if c, ok := w.Executor.(agents.Canceler); ok {
		c.Canceled(tenant, contextID, id)
	}
}

// Kept implements [agents.Keeper].
func (w worklog) Kept() []agents.KeptTask {
	if k, ok := w.Executor.(agents.Keeper); ok {
		return k.Kept()
	}
	return nil
}

// Changes implements the optional interface of executors; it returns nil when the agent announces no changes.
func (w worklog) Changes() <-chan agents.Change {
	if c, ok := w.Executor.(interface{ Changes() <-chan agents.Change }); ok {
		return c.Changes()
	}
	return nil
}

// ended describes how t ends with e.
func ended(t *agents.Task, e a2a.Event) string {
	state, m := a2a.TaskStateCompleted, (*a2a.Message)(nil)
	switch e := e.(type) {
	case *a2a.Message:
		m = e
	case *a2a.TaskStatusUpdateEvent:
		state, m = e.Status.State, e.Status.Message
	case *a2a.Task:
		state, m = e.Status.State, e.Status.Message
	}
	var parts a2a.ContentParts
	if m != nil {
		parts = m.Parts
	}
	return client.StateName(state) + ", " + bytesText(t.Whole(parts))
}

// bytesText describes the amount of text, data and files in parts.
func bytesText(parts a2a.ContentParts) string {
	n := len(transport.Text(parts))
	for _, p := range parts {
		if p == nil {
			continue
		}
		if d, ok := p.Content.(a2a.Data); ok {
			b, _ := transport.EncodeValue(d.Value) // what cannot be encoded was not sent
			n += len(b)
		}
	}
	text := fmt.Sprintf("%d bytes", n)
	if n == 1 {
		text = "1 byte"
	}
	switch files := len(transport.FilesOf(parts)); files {
	case 0:
	case 1:
		text += " and a file"
	default:
		text += fmt.Sprintf(" and %d files", files)
	}
	return text
}
