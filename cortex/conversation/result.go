package conversation

import (
	"cmp"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxResult bounds the text of a result that a fold keeps, in bytes; the log has all of it.
const maxResult = 257 << 10 // the most that package agents sends, with its note

// maxArtifacts bounds the text of all artifacts of a result that a fold keeps, in bytes.
const maxArtifacts = 256 << 10

// result is what an agent reports about a task.
type result struct {
	TaskID    a2a.TaskID
	State     a2a.TaskState
	Text      string
	Artifacts []prompt.Artifact
	Files     []*a2a.Part
}

// ResultOf reads an agent's report in each form that A2A allows: a Task, a status update, or, as simple agents do, a message that names the
// task.
func ResultOf(e *transport.Event) (result, bool) {
	task, ok := transport.ResultTask(e)
	if !ok {
		return result{}, false
	}
	switch p := e.Payload.(type) {
	case *a2a.Task:
		r := result{TaskID: task, State: p.Status.State, Text: messageText(p.Status.Message), Files: resultFiles(p.Status.Message, p.Artifacts)}
		room := maxArtifacts
		for _, a := range p.Artifacts {
			if a == nil || room <= 0 || len(r.Artifacts) == 32 {
				continue
			}
			text := Truncate(partsText(a.Parts), min(maxResult, room))
			r.Artifacts = append(r.Artifacts, prompt.Artifact{Name: Truncate(a.Name, 256), Text: text})
			room -= len(text)
		}
		r.State = authAsInput(r.State)
		return r, true
	case *a2a.TaskStatusUpdateEvent:
		return result{TaskID: task, State: authAsInput(p.Status.State), Text: messageText(p.Status.Message), Files: resultFiles(p.Status.Message, nil)}, true
	case *a2a.Message:
		return result{TaskID: task, State: a2a.TaskStateCompleted, Text: messageText(p), Files: resultFiles(p, nil)}, true
	}
	return result{}, false
}

// authAsInput treats a task that wants the user to log in somewhere (auth-required) as one that asks the user a question.
func authAsInput(s a2a.TaskState) a2a.TaskState {
	if s == a2a.TaskStateAuthRequired {
		return a2a.TaskStateInputRequired
	}
	return s
}

// Settles reports whether r ends its task or asks a question, rather than reporting progress.
func (r result) Settles() bool { return r.State.Terminal() || r.State == a2a.TaskStateInputRequired }

func messageText(m *a2a.Message) string {
	if m == nil {
		return ""
	}
	return Truncate(partsText(m.Parts), maxResult)
}

// partsText returns parts of every kind as text.
func partsText(parts a2a.ContentParts) string {
	var lines []string
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch c := p.Content.(type) {
		case a2a.Text:
			lines = append(lines, string(c))
		case a2a.Data:
			if b, err := transport.EncodeValue(c.Value); err == nil {
				lines = append(lines, string(b))
			}
		case a2a.URL:
			if transport.IsFileRef(p) {
				lines = append(lines, fileMark(p))
				continue
			}
			lines = append(lines, string(c))
		case a2a.Raw:
			lines = append(lines, fileMark(p))
		}
	}
	return strings.Join(lines, "\n")
}

// fileMark stands for a file in a text.
func fileMark(p *a2a.Part) string {
	return "[" + cmp.Or(prompt.Clean(p.Filename, transport.MaxFileName), "binary data") + "]"
}

// Truncate returns s, or its beginning and a mark when s has more than limit bytes.
func Truncate(s string, limit int) string { return shorten.Marked(s, limit, " […]") }
