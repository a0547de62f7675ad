// Package records keeps what agents know of their tasks, so that after a crash they know what they have begun.
package records

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the records of an agent.
const (
	Age  = 7 * 24 * time.Hour // no task is redelivered later
	Most = 10_000
)

// Journal keeps a record R for each task of an agent, one file each, in a folder that is locked by one process.
type Journal[R any] struct {
	taskfile.Folder
	size int // bytes of a record, at most
	lock *os.File
}

// Options says where a journal is, and what it keeps.
type Options[R any] struct {
	Folder string // of the agent
	Name   string // of the journal's folder in it
	Bytes  int64  // of all records together, at most
	Size   int    // of a record, at most
	Log    *slog.Logger
	// Done reports whether a record's task is done; nil: that is not known. Then says what becomes of a task that is not and whose record is removed, which is logged.
	Done func(*R) bool
	Then string
}

// Open opens a journal, and creates the folders if necessary. The journal's lock is for the agent's other folders as well.
func Open[R any](o *Options[R], now time.Time, others ...*taskfile.Folder) (*Journal[R], error) {
	folder := o.Folder
	j := &Journal[R]{Folder: taskfile.Folder{Dir: filepath.Join(folder, o.Name), Age: Age, Most: Most, Bytes: o.Bytes, Warn: o.Log.Warn, Then: o.Then}, size: o.Size}
	if o.Done != nil {
		j.Open = func(path string) bool {
			r := new(R)
			ok, err := taskfile.ReadRecord(path, o.Size, r)
			return ok && err == nil && !o.Done(r)
		}
	}
	var err error
	if j.lock, err = taskfile.Claim(folder, now, append(others, &j.Folder)...); err != nil {
		return nil, err
	}
	return j, nil
}

// Close releases the lock; more than once does no harm.
func (j *Journal[R]) Close() error { return taskfile.Release(j.lock) }

// File returns the file of a task's record.
func (j *Journal[R]) File(t *agents.Task) string { return j.Path(t.Tenant, t.ContextID, t.ID) }

// Read returns a task's record, or nil.
func (j *Journal[R]) Read(t *agents.Task) (*R, error) {
	r := new(R)
	ok, err := taskfile.ReadRecord(j.File(t), j.size, r)
	if err != nil {
		j.Warn("the record of a task cannot be read, which fails", "task_id", t.ID, "file", j.File(t), "err", err)
	}
	if !ok {
		return nil, err
	}
	return r, nil
}

// Write writes and syncs a task's record.
func (j *Journal[R]) Write(t *agents.Task, r *R) error {
	return j.WriteRecord(j.File(t), Owner(t), j.size, r)
}

// Owner returns the owner of a task's files: whoever asked Cortex for what the task is part of.
func Owner(t *agents.Task) string {
	if t.Message == nil {
		return ""
	}
	return taskfile.Owner(t.Tenant, transport.MetaString(t.Message, transport.MetaRequester))
}

// Continues reports whether a task is the user's reply to a question.
func Continues(t *agents.Task) bool {
	return t.Message != nil && t.Message.Metadata[transport.MetaContinued] == true
}
