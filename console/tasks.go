package console

import (
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
	d := &tasksData{All: r.URL.Query().Has("all"), Alike: c.alike(c.cfg.Agents()).named, Now: c.cfg.Now(), Rows: []view.Task{}}
	if d.All {
		d.Rows, d.More, d.Damaged, err = view.LastTasks(r.Context(), c.reader(), maxTasks)
	} else {
		d.Damaged, err = view.OpenTasks(r.Context(), c.reader(), func(t view.Task) bool {
			if len(d.Rows) == maxTasks {
				d.More = true
				return false
			}
			d.Rows = append(d.Rows, t)
			return true
		})
	}
	if err != nil {
		return err
	}
	if wantsJSON(r) {
		return answerList(w, func(yield func(view.Task, error) bool) { // all at once, their texts can be a gigabyte
			for _, t := range d.Rows {
				if !yield(t, nil) {
					return
				}
			}
		})
	}
	c.show(w, r, http.StatusOK, &page{Name: "tasks", Title: "Tasks", Section: "tasks", Data: d})
	return nil
}
