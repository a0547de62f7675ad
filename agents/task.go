package agents

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Task is what a [Handler] is asked to do. Its methods are safe for concurrent use; its fields are not changed while the
// handler runs. A Task that was not made by [Serve] works too, for tests: its progress goes nowhere.
type Task struct {
	ID        a2a.TaskID
	ContextID string // the conversation
	Tenant    string
	// Skill is the id of the skill that was asked for, or the dispatch key that the card has for it, or empty.
	Skill string
	// Message holds what is asked, and in its metadata what is known of the request; never nil in a task from Serve.
	// A task that continues after [InputRequired] has the id of the first one and the user's reply as Message.
	Message *a2a.Message
	// Deadline is when the result is no longer of use, by the clock of this machine; zero is never. The handler's context ends
	// then. It is the deadline at the beginning: it moves on while the handler shows progress, as far as Cortex allows (its task
	// says until when), and when Cortex asks for the task again; the context knows.
	Deadline time.Time
	// Traceparent and Tracestate are the W3C trace context of the task, or empty. What the agent tells of the task has it by itself.
	Traceparent, Tracestate string
	// Delivery counts the attempts at this task, from 1: after 1, the agent or its connection was lost while it worked.
	Delivery int

	live  *live  // nil outside Serve
	pulse *pulse // likewise
	agent *agent // likewise
	run   *run   // likewise

	mu        sync.Mutex
	artifacts []*made
	bytes     int            // of artifacts
	text      []byte         // that was streamed
	asked     map[string]int // how often, by a digest of what was asked
}

// newTask reads a task from its event.
func newTask(e *transport.Event, m *a2a.Message) *Task {
	return &Task{
		ID: taskID(e, m), ContextID: e.ContextID, Tenant: e.Tenant, Message: m, Delivery: e.Delivery,
		Traceparent: e.Traceparent, Tracestate: e.Tracestate,
		Skill: skillOf(transport.MetaString(m, transport.MetaTaskType)),
	}
}

// skillOf is the skill that a task's type asks for.
func skillOf(taskType string) string { return strings.TrimSuffix(taskType, "_request") }

func taskID(e *transport.Event, m *a2a.Message) a2a.TaskID {
	if m.TaskID != "" {
		return m.TaskID
	}
	return e.TaskID
}

// attemptOf returns which attempt at its task a message is, from 1.
func attemptOf(m *a2a.Message) int {
	if n, ok := transport.Float(m.Metadata[transport.MetaAttempt]); ok && n > 1 && n <= math.MaxInt32 {
		return int(n)
	}
	return 1
}

// Text returns the words of the task: its text parts, separated by newlines.
func (t *Task) Text() string {
	if t.Message == nil {
		return ""
	}
	return transport.Text(t.Message.Parts)
}

// Input returns the structured input of the task, the value of its first data part, or nil. It is as encoding/json reads it, but a number
// that would be another one as a float64, such as a large id, is a [encoding/json.Number].
func (t *Task) Input() any {
	if t.Message == nil {
		return nil
	}
	for _, p := range t.Message.Parts {
		if p == nil {
			continue
		}
		if d, ok := p.Content.(a2a.Data); ok {
			return d.Value
		}
	}
	return nil
}

// Progress tells whoever watches the conversation what is being done, in a line, and moves the deadline (see Task.Deadline). It
// returns at once. When it is called more often than people can read, some texts are left out, never the newest.
func (t *Task) Progress(text string) {
	t.alive()
	if t.live != nil {
		t.live.progress(text)
	}
}

// alive notes that the handler gets on.
func (t *Task) alive() {
	if t.pulse != nil {
		t.pulse.beat()
	}
}
