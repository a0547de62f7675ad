// Package records keeps what agents know of their tasks, so that after a crash they know what they have begun.
package records

import (
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

// Open opens a journal, whose files are in the folder called name within an agent's folder, and creates the folders if necessary. bytes bounds all
// records together, and size each. The journal's lock is for the agent's other folders as well.
func Open[R any](folder, name string, now time.Time, bytes int64, size int, others ...*taskfile.Folder) (*Journal[R], error) {
	j := &Journal[R]{Folder: taskfile.Folder{Dir: filepath.Join(folder, name), Age: Age, Most: Most, Bytes: bytes}, size: size}
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
	if ok, err := taskfile.ReadRecord(j.File(t), j.size, r); !ok {
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
