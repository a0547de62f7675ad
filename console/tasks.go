package console

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// tasksData is the page of tasks.
type tasksData struct {
	All     bool
	Rows    []view.Task
	More    bool
	Damaged int
	Alike   func(string) string
	Now     time.Time
}

// Overdue reports whether the deadline of an open task has passed.
func (d *tasksData) Overdue(t view.Task) bool {
	return !t.State.Terminal() && !t.Deadline.IsZero() && t.Deadline.Before(d.Now)
}

const maxTasks = 200

func (c *Console) tasks(w http.ResponseWriter, r *http.Request, who Person) error {
	leave, err := c.enterPage(r.Context(), w, who, ownPages) // a task has up to 1 MiB
	if err != nil {
		return err
	}
	defer leave()
	all, asJSON := r.URL.Query().Has("all"), wantsJSON(r)
	if asJSON && !all {
		return answerList(w, c.openTasks(r.Context()))
	}
	d := &tasksData{All: all, Alike: c.alike(c.cfg.Agents()).named, Now: c.cfg.Now(), Rows: []view.Task{}}
	if all {
		d.Rows, d.More, d.Damaged, err = view.LastTasks(r.Context(), c.reader(), maxTasks, false)
	} else {
		d.Damaged, err = view.OpenTasks(r.Context(), c.reader(), func(t view.Task) bool {
			if len(d.Rows) == maxTasks {
				d.More = true
				return false
			}
			d.Rows = append(d.Rows, t.Brief())
			return true
		})
	}
	if err != nil {
		return err
	}
	if asJSON {
		return answerList(w, view.Whole(r.Context(), c.reader(), d.Rows))
	}
	c.show(w, r, http.StatusOK, &page{Name: "tasks", Title: "Tasks", Section: "tasks", Data: d})
	return nil
}

// openTasks reads the first open tasks, one after the other.
func (c *Console) openTasks(ctx context.Context) iter.Seq2[view.Task, error] {
	return func(yield func(view.Task, error) bool) {
		n, stopped := 0, false
		_, err := view.OpenTasks(ctx, c.reader(), func(t view.Task) bool {
			n++
			stopped = n > maxTasks || !yield(t, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(view.Task{}, err)
		}
	}
}
