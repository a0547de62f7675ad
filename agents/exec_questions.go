package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what is kept of questions.
const (
	questionAge     = 30 * 24 * time.Hour
	maxQuestions    = 10_000
	questionBytes   = 1 << 30 // of all files
	maxQuestion     = 8 << 20 // bytes of a file
	maxQuestionText = 32 << 10
	maxRounds       = 16 // the latest
)

// questions keeps what programs need to go on after a question: a file for each task, in a folder that several agents may share. It keeps nothing
// if the folder has no name.
type questions struct {
	files *taskfile.Folder
	log   func(line string)
}

// round is what a program asked in the course of a task, in reply to a message.
type round struct {
	Message string `json:"message"`
	jsonl.Round
	State json.RawMessage `json:"state,omitempty"`
}

func openQuestions(dir string, log func(line string)) *questions {
	q := &questions{&taskfile.Folder{Dir: dir, Age: questionAge, Most: maxQuestions, Bytes: questionBytes}, log}
	q.files.Warn = func(text string, attrs ...any) {
		log(strings.TrimSpace(fmt.Sprintln(append([]any{text}, attrs...)...)))
	}
	if dir != "" {
		_ = q.files.Sweep(time.Now()) // there may be no folder yet; an error is told when a question is kept
	}
	return q
}

// ForgetQuestions erases what [ExecLines] and [Keep] keep of a conversation in the folder of their Questions, which need not exist.
func ForgetQuestions(folder, tenant, contextID string) error {
	return taskfile.Forget(folder, tenant, contextID)
}

// path returns the file of a task.
func (q *questions) path(t *Task) string { return q.files.Path(t.Tenant, t.ContextID, t.ID) }

// read returns what was asked before the task's message; nothing if that is not known here.
func (q *questions) read(t *Task) ([]round, error) {
	if q.files.Dir == "" || t.Message == nil || t.Message.Metadata[transport.MetaContinued] != true {
		return nil, nil
	}
	var all []round
	if _, err := taskfile.ReadRecord(q.path(t), maxQuestion, &all); err != nil {
		return nil, err
	}
	// The question of an earlier delivery of this message was not delivered.
	if at := slices.IndexFunc(all, func(r round) bool { return r.Message == t.Message.ID }); at >= 0 {
		all = all[:at]
	}
	return all, nil
}

// replied adds to the line for a program what was said before, if the task is a reply.
func (q *questions) replied(t *Task, given *jsonl.Task) error {
	if t.Message == nil || t.Message.Metadata[transport.MetaContinued] != true {
		return nil
	}
	given.Reply = true
	all, err := q.read(t)
	if q.files.Dir != "" && all == nil && err == nil {
		q.log(fmt.Sprintf("task %s: the program gets a reply without state and history: its question was kept on another machine, or is older than %v, or was removed",
			shorten.Line(string(t.ID), 64), questionAge))
	}
	for _, r := range all {
		given.History, given.State = append(given.History, r.Round), r.State
	}
	return err
}

// asked keeps a question, before it is asked.
func (q *questions) asked(t *Task, given *jsonl.Task, l *jsonl.Line) error {
	if q.files.Dir == "" || t.Message == nil {
		return nil
	}
	all, err := q.read(t)
	if err != nil {
		return err
	}
	all = append(all, round{t.Message.ID, jsonl.Round{Text: shorten.To(given.Text, maxQuestionText), Question: shorten.To(l.Words(), maxQuestionText)}, l.State})
	for i := range all[:max(0, len(all)-2)] {
		all[i].State = nil // that before the last one is of use when this message is delivered again
	}
	all = all[max(0, len(all)-maxRounds):]
	if err := q.files.WriteRecord(q.path(t), taskfile.Owner(t.Tenant, transport.MetaString(t.Message, transport.MetaRequester)), maxQuestion, all); err != nil {
		return fmt.Errorf("the question cannot be kept: %w", taskfile.Pathless(err))
	}
	return nil
}
