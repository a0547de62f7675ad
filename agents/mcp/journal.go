package mcp

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// callsDir is the folder of an agent's records, in its folder.
const callsDir = "calls"

// Bounds of the journal. Should a task whose record was removed be redelivered, its outcome is unknown.
const (
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
	Late     bool      `json:"late,omitempty"`     // the server had not waited for the answer to the one before
}

// Forget erases what all agents whose [Options] have this Dir keep of a conversation: the arguments and results of calls, and questions. A call that
// was interrupted, and whose record is gone, is still not made a second time.
func Forget(dir, tenant, contextID string) error {
	return taskfile.Below(dir, func(agent string) error { return taskfile.Forget(filepath.Join(agent, callsDir), tenant, contextID) })
}

// openJournal opens the journal in folder and creates the folder if necessary.
func openJournal(folder string, now time.Time, log *slog.Logger) (*records.Journal[record], error) {
	return records.Open(&records.Options[record]{
		Folder: folder, Name: callsDir, Bytes: maxJournal, Size: maxRecord, Log: log, Done: func(r *record) bool { return r.State == done },
		Then: "a reply to what a server has asked for one fails, and a call that may have been made is not made again: ask again for it",
	}, now)
}
