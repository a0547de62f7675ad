package persona

import (
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/llm"
)

// tasksDir is the folder of an agent's records, and serversDir that of the journals of its MCP servers, in its folder.
const (
	tasksDir   = "tasks"
	serversDir = "mcp"
)

// Bounds of the journal.
const (
	maxJournal = 1 << 30 // bytes of all records
	maxRecord  = 96 << 20
)

// record is the journal's entry for a task. It is written with each step before the step is done.
type record struct {
	// Message is the id of the task's latest message; a reply or another attempt has a new one.
	Message string `json:"message"`
	// Parts are those of the task, and the files of replies: a reply has nothing but what the user says.
	Parts   a2a.ContentParts `json:"parts,omitempty"`
	Steps   []step           `json:"steps,omitempty"`
	Cleared int              `json:"cleared,omitempty"` // of the first so many steps, the results are left out of the prompt
	Usage   llm.Usage        `json:"usage,omitzero"`
	Worked  time.Duration    `json:"worked,omitempty"` // until the last write, without waiting for the user
	Asked   *asked           `json:"asked,omitempty"`  // the question that waits for its answer
	Rounds  int              `json:"rounds,omitempty"` // judged drafts
	// Verdicts are those of the reflection and the evaluators.
	Verdicts []evaluate.Verdict `json:"verdicts,omitempty"`
	Outcome  *outcome           `json:"outcome,omitempty"`
}

// step is a reply of the model and what came of it.
type step struct {
	Reply string `json:"reply"` // as the prompt shows it
	Say   string `json:"say,omitempty"`
	Calls []call `json:"calls,omitempty"`
	Note  string `json:"note,omitempty"` // what the model is told in the place of results
}

// States of a call.
const (
	planned  = ""
	approved = "approved" // the user said yes
	begun    = "begun"    // it may have been made
	done     = "done"
)

type call struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	State  string          `json:"state,omitempty"`
	Result string          `json:"result,omitempty"`
	Failed bool            `json:"failed,omitempty"`
	Again  bool            `json:"again,omitempty"` // the model was told that it may make the call again
}

// What ends a result that made room for later ones, and what is added to it when the call changes nothing.
const (
	notKept   = "\n[the rest is not kept any more, since later results took its room"
	callAgain = ": make the call again if it is needed"
)

// makeRoom bounds the results together, as they are in the record. Of the oldest long ones only the beginning is kept.
func (w *work) makeRoom() {
	room := maxKept
	for _, s := range slices.Backward(w.r.Steps) {
		for i := range slices.Backward(s.Calls) {
			c := &s.Calls[i]
			n := escaped(c.Result)
			if n > room && len(c.Result) > firstBytes {
				mark := notKept
				if t := w.find(c.Tool); t != nil && t.effect == readOnly && !t.asks {
					c.Again = true
					mark += callAgain
				}
				c.Result = shorten.To(c.Result, firstBytes/2) + mark + "]" // of 16,000 that JSON makes six times as long, a record has room for these beginnings
				n = escaped(c.Result)
			}
			room = max(0, room-n)
		}
	}
}

// escaped returns how many bytes a text has in JSON, at least nearly.
func escaped(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n' || c == '\t' || c == '"' || c == '\\':
			n++
		case c < ' ' || c == '<' || c == '>' || c == '&':
			n += 5
		}
	}
	return n
}

// asked is a question to the user.
type asked struct {
	Text string `json:"text"`
	// Release is the answer that is passed on if the user says yes; nil: the question belongs to a call of the last step.
	Release *outcome `json:"release,omitempty"`
	Call    int      `json:"call,omitempty"`
}

// outcome is the result of a task.
type outcome struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data,omitempty"` // the text as JSON, for a skill with an output schema
	Cut  string          `json:"cut,omitempty"`  // the bound that ended the work
}

// openJournal opens the journal in an agent's folder, and creates the folder if necessary.
func openJournal(folder string, now time.Time, log *slog.Logger) (*records.Journal[record], error) {
	return records.Open(&records.Options[record]{
		Folder: folder, Name: tasksDir, Bytes: maxJournal, Size: maxRecord, Log: log, Done: func(r *record) bool { return r.Outcome != nil },
		Then: "those that are worked on end, and a reply to the question of one fails: ask again for all of it",
	}, now)
}

// Forget erases what all agents whose [Options] have this Dir keep of a conversation: their records, and what they remember.
func Forget(dir, tenant, contextID string) error {
	return taskfile.Below(dir, func(agent string) error {
		return errors.Join(taskfile.Forget(filepath.Join(agent, tasksDir), tenant, contextID),
			taskfile.Forget(filepath.Join(agent, memoryDir), tenant, contextID), mcp.Forget(filepath.Join(agent, serversDir), tenant, contextID))
	})
}
