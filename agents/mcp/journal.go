package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// callsDir is the folder of an agent's records, in its folder.
const callsDir = "calls"

// Bounds of the journal. Should a task whose record was removed be redelivered, its outcome is unknown.
const (
	recordAge  = 7 * 24 * time.Hour // no task is redelivered later
	maxRecords = 10_000
	maxJournal = 256 << 20 // bytes of all records
	maxRecord  = 64 << 20  // bytes of one record
)

// States of a record.
const (
	taken  = "taken"  // the call was not sent
	sent   = "sent"   // the call may have been sent
	done   = "done"   // the record has the outcome
	asking = "asking" // the server has asked a question
)

// record is the journal's entry for a task. It is written before the call is sent and again before the task's result is acknowledged, so that
// after a crash it is known whether the call may be made.
type record struct {
	// Message is the id of the task's latest message; a reply or another attempt has a new one.
	Message string `json:"message"`
	// Deliveries counts the deliveries of Message that this journal has seen.
	Deliveries int    `json:"deliveries"`
	State      string `json:"state"`

	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`  // the server's CallToolResult
	Failure   string          `json:"failure,omitempty"` // if there is no result

	Question *question `json:"question,omitempty"` // the server's last question
}

// journal keeps an agent's records, one file each, in a folder that is locked by one process.
type journal struct {
	files *taskfile.Folder
	lock  *os.File
}

// Forget erases what all agents whose [Options] have this Dir keep of a conversation: the arguments and results of calls, and questions. A call that
// was interrupted, and whose record is gone, is still not made a second time.
func Forget(dir, tenant, contextID string) error {
	agents, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, a := range agents {
		if a.IsDir() {
			err = errors.Join(err, taskfile.Forget(filepath.Join(dir, a.Name(), callsDir), tenant, contextID))
		}
	}
	return err
}

// openJournal opens the journal in folder and creates the folder if necessary.
func openJournal(folder string, now time.Time) (*journal, error) {
	j := &journal{files: &taskfile.Folder{Dir: filepath.Join(folder, callsDir), Age: recordAge, Most: maxRecords, Bytes: maxJournal}}
	if err := os.MkdirAll(j.files.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("no folder for what is asked: %w", err)
	}
	var err error
	if j.lock, err = os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("no folder for what is asked: %w", err)
	}
	if !taskfile.Lock(j.lock) {
		return nil, errors.Join(fmt.Errorf("it is an agent already: another process works with %s", folder), j.lock.Close())
	}
	return j, j.files.Sweep(now)
}

func (j *journal) close() error {
	if err := j.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// path returns the file of a task's record.
func (j *journal) path(t *agents.Task) string { return j.files.Path(t.Tenant, t.ContextID, t.ID) }

// read returns a task's record, or nil.
func (j *journal) read(t *agents.Task) (*record, error) {
	b, _, err := document.ReadRegular(j.path(t), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("what was asked before cannot be read: %w", err)
	}
	if r.Question != nil && r.Question.Answers == nil {
		r.Question.Answers = sdk.InputResponseMap{}
	}
	return r, nil
}

// write writes and syncs a task's record.
func (j *journal) write(t *agents.Task, r *record) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = j.files.Write(j.path(t), b)
	}
	if err != nil {
		return fmt.Errorf("what is asked cannot be kept: %w", err)
	}
	return nil
}
