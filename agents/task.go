package agents

import (
	"cmp"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Task is what a [Handler] is asked to do. Its methods are safe for concurrent use; its fields do not change while the
// handler runs. A Task that was not made by [Serve] works too, for tests: its progress goes nowhere.
type Task struct {
	ID        a2a.TaskID
	ContextID string // the conversation
	Tenant    string
	// Skill is the id of the requested skill, or the dispatch key that the card has for it, or empty.
	Skill string
	// Message is the request, with its metadata; never nil in a task from Serve. A task that continues after [InputRequired] has the
	// same id, and the user's reply as Message.
	Message *a2a.Message
	// Deadline is when the result is no longer needed, by this machine's clock; zero means never. It is the deadline at the start: it
	// moves while the handler shows progress, within the limit that Cortex has set for the task, and when Cortex sends the task again.
	// The handler's context ends at the moved deadline.
	Deadline time.Time
	// Traceparent and Tracestate are the W3C trace context of the task, or empty. All events of the task carry it.
	Traceparent, Tracestate string
	// Delivery counts how often the task was delivered, from 1: above 1, the agent or its connection was lost while it worked on it. A NATS server that is
	// killed just when it delivers a task may deliver it again as 1.
	Delivery int

	live  *live // nil outside Serve, as are the next three
	pulse *pulse
	agent *agent
	run   *run

	mu        sync.Mutex
	artifacts []*taskArtifact
	bytes     int            // of artifacts
	text      []byte         // streamed text
	asked     map[string]int // number of equal requests, by their digest
}

// newTask reads a task from its event.
func newTask(e *transport.Event, m *a2a.Message) *Task {
	return &Task{
		ID: taskID(e, m), ContextID: e.ContextID, Tenant: e.Tenant, Message: m, Delivery: e.Delivery,
		Traceparent: e.Traceparent, Tracestate: e.Tracestate,
		Skill: skillOf(transport.MetaString(m, transport.MetaTaskType)),
	}
}

// skillOf returns the skill that a task type names.
func skillOf(taskType string) string { return strings.TrimSuffix(taskType, "_request") }

func taskID(e *transport.Event, m *a2a.Message) a2a.TaskID {
	return cmp.Or(m.TaskID, e.TaskID)
}

// attemptOf returns the attempt number of a task's message, from 1.
func attemptOf(m *a2a.Message) int {
	if n, ok := transport.Float(m.Metadata[transport.MetaAttempt]); ok && n > 1 && n <= math.MaxInt32 {
		return int(n)
	}
	return 1
}

// Text returns the text parts of the task, separated by newlines.
func (t *Task) Text() string {
	if t.Message == nil {
		return ""
	}
	return transport.Text(t.Message.Parts)
}

// Input returns the structured input of the task, the value of its first data part, or nil. It is decoded as by encoding/json, but a number
// that a float64 cannot represent exactly, such as a large id, is a [encoding/json.Number].
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

// Progress shows watchers of the conversation one line about the work, and moves the deadline (see Task.Deadline). It does not
// block. When it is called faster than people can read, some texts are left out, but never the newest.
func (t *Task) Progress(text string) {
	t.noteProgress()
	if t.live != nil {
		t.live.progress(text)
	}
}

// noteProgress notes progress of the handler.
func (t *Task) noteProgress() {
	if t.pulse != nil {
		t.pulse.beat()
	}
}
