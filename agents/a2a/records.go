package a2a

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what is kept: a conversation that had no task for a quarter of a year begins anew.
const (
	maxJournal  = 256 << 20 // bytes of all records
	maxRecord   = 64 << 20  // bytes of one record
	contextAge  = 90 * 24 * time.Hour
	maxContexts = 50_000
)

// The folders of an agent's records, in its folder.
const (
	tasksDir    = "tasks"
	contextsDir = "contexts"
	openDir     = "open" // has a file with nothing to read for each task that its peer may be at work on
)

// then says what becomes of a task that is not done and whose record is removed.
const then = "what the peer is at work on goes on there, and is looked for there if it is delivered again"

// maxID bounds the ids that a peer makes, in bytes.
const maxID = 1 << 10

// record is what is known of a task. It is written before a message is sent, and again as soon as the peer has named its task.
type record struct {
	Message string `json:"message"` // the id of the task's latest message
	Attempt int    `json:"attempt"` // of it

	Sent    string     `json:"sent"`              // the id of the message that was sent for it
	Task    a2a.TaskID `json:"task,omitempty"`    // of the peer; "": it has not named one
	Context string     `json:"context,omitempty"` // of the peer

	// Asked identifies the peer's question that was passed on last; Reply says that Sent answers it.
	Asked string `json:"asked,omitempty"`
	Reply bool   `json:"reply,omitempty"`

	Answer *a2a.Message `json:"answer,omitempty"` // the answer of a peer that makes no tasks
	Failed string       `json:"failed,omitempty"` // why there is no task

	Until time.Time `json:"until,omitzero"` // when nobody waits for it any more, by this machine's clock

	Of agents.KeptTask `json:"of,omitzero"` // the task here
}

// journal has the records of an agent's tasks, and the peer's ids of conversations.
type journal struct {
	*records.Journal[record]
	contexts, open *taskfile.Folder
}

// Forget erases what all agents whose [Options] have this Dir keep of a conversation. A task that was begun, and whose record is gone, is looked for at its
// peer if it is delivered again.
func Forget(dir, tenant, contextID string) error {
	return taskfile.Below(dir, func(agent string) (err error) {
		for _, of := range []string{tasksDir, contextsDir, openDir} {
			err = errors.Join(err, taskfile.Forget(filepath.Join(agent, of), tenant, contextID))
		}
		return err
	})
}

// openJournal opens the journal in folder, and creates the folder if necessary.
func openJournal(folder string, now time.Time, log *slog.Logger) (j *journal, err error) {
	j = &journal{
		contexts: &taskfile.Folder{Dir: filepath.Join(folder, contextsDir), Age: contextAge, Most: maxContexts, Warn: log.Warn},
		open: &taskfile.Folder{
			Dir: filepath.Join(folder, openDir), Age: records.Age, Most: records.Most, Warn: log.Warn, Open: func(string) bool { return true }, Then: then,
		},
	}
	j.Journal, err = records.Open(&records.Options[record]{Folder: folder, Name: tasksDir, Bytes: maxJournal, Size: maxRecord, Log: log, Then: then}, now, j.contexts, j.open)
	if err != nil {
		return nil, err
	}
	j.Open = func(path string) bool {
		_, err := os.Stat(filepath.Join(j.open.Dir, filepath.Base(path)))
		return err == nil
	}
	return j, nil
}

// context returns the peer's id of the conversation of a task; "" is none.
func (j *journal) context(t *agents.Task) (id string, err error) {
	_, err = taskfile.ReadRecord(j.contexts.Path(t.Tenant, t.ContextID, ""), maxRecord, &id)
	return id, err
}

// setContext keeps the peer's id of the conversation of a task; "" forgets it.
func (j *journal) setContext(t *agents.Task, id string) error {
	return j.contexts.WriteRecord(j.contexts.Path(t.Tenant, t.ContextID, ""), records.Owner(t), maxRecord, id)
}

// namespace is the name space of the ids of messages.
var namespace = uuid.MustParse("0d3a1c1e-7f4f-4f0b-9a55-2f6c0f6f3a2b")

// messageID returns the id of the message that is sent for a task: it is the same when the sending is repeated.
func messageID(t *agents.Task, attempt int) string {
	reply := ""
	if records.Continues(t) {
		reply = t.Message.ID
	}
	text := ""
	for _, s := range []string{t.Tenant, t.ContextID, string(t.ID), strconv.Itoa(attempt), reply} {
		text += s + "\x00"
	}
	return uuid.NewSHA1(namespace, []byte(text)).String()
}

// attemptOf returns the number of a task's attempt, from 1.
func attemptOf(t *agents.Task) int {
	if t.Message != nil {
		if n, ok := transport.Float(t.Message.Metadata[transport.MetaAttempt]); ok && n > 1 && n < 1<<31 {
			return int(n)
		}
	}
	return 1
}
