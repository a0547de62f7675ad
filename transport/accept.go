package transport

import (
	"errors"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Request returns the message of a request. Messages of agents, which have role agent, are no requests; a message without a role is one.
func Request(e *Event) (*a2a.Message, bool) {
	m, ok := e.Payload.(*a2a.Message)
	if !ok || m.Role == a2a.MessageRoleAgent {
		return nil, false
	}
	return m, true
}

// BeginsWork reports whether e, sent to Cortex, begins a turn or an entry of a log: a request or a [Share]. Where there is little room such events are
// refused first; all others belong to work that was accepted.
func BeginsWork(e *Event) bool {
	_, request := Request(e)
	_, share := e.Payload.(*Share)
	return request || share
}

// CheckRequest returns why a request can never be carried out, or nil: the agent that it names is invalid, or it has too many files. Carrying it out
// partly, or by another agent, would not be what its sender means. The error is for people.
func CheckRequest(m *a2a.Message) error {
	agent, named := m.Metadata[MetaForAgent]
	if id, ok := agent.(string); named && (!ok || CheckID(id) != nil) {
		return fmt.Errorf("the metadata %s is %.100q: want the id of the agent that the message is for, or leave it out", MetaForAgent, fmt.Sprint(agent))
	}
	if skill, ok := m.Metadata[MetaForSkill]; ok {
		if _, ok := skill.(string); !ok {
			return fmt.Errorf("the metadata %s is %.100q: want the id of a skill, or leave it out", MetaForSkill, fmt.Sprint(skill))
		}
		if !named {
			return fmt.Errorf("the metadata %s names a skill, but nothing names its agent: that stands in %s", MetaForSkill, MetaForAgent)
		}
	}
	if to, ok := m.Metadata[MetaReplyTo]; ok {
		if id, ok := to.(string); !ok || CheckID(id) != nil {
			return fmt.Errorf("the metadata %s is %.100q: want the id of the turn whose question the message answers, or leave it out", MetaReplyTo, fmt.Sprint(to))
		}
	}
	files := 0
	for _, p := range m.Parts {
		if _, _, _, ok := FileOf(p); ok {
			files++
		}
	}
	if files > MaxFiles {
		return fmt.Errorf("a message brings at most %d files, and this one has %d", MaxFiles, files)
	}
	return nil
}

// ResultTask reports whether e is an agent's event about a task, in one of the forms that A2A allows: a Task, a status update, or, from simple
// agents, a message. task is empty when e names none.
func ResultTask(e *Event) (task a2a.TaskID, ok bool) {
	switch p := e.Payload.(type) {
	case *a2a.Task:
		return p.ID, true
	case *a2a.TaskStatusUpdateEvent:
		return p.TaskID, true
	case *a2a.Message:
		if p.Role != a2a.MessageRoleAgent {
			return "", false
		}
		if p.TaskID != "" {
			return p.TaskID, true
		}
		return e.TaskID, true
	}
	return "", false
}

// ForCortex returns why an orchestrator of this version can never handle e, or nil. An orchestrator refuses such an event for good; a gateway before
// its inbox refuses it before it is stored.
func ForCortex(e *Event) error {
	if o, ok := e.Payload.(*Opaque); ok {
		return fmt.Errorf("unknown kind of event %.40q, version %.20q", o.Kind, o.Version)
	}
	if _, ok := Request(e); ok {
		return nil
	}
	if task, ok := ResultTask(e); ok {
		if task == "" {
			return errors.New("result without a taskID")
		}
		return nil
	}
	switch p := e.Payload.(type) {
	case *Deadline:
		if e.From != Cortex {
			return fmt.Errorf("a deadline from %s: only the orchestrator sets them", e.From)
		}
		return nil
	case *Cancel, *Share:
		return nil
	case *Post, *ReadBoard:
		if e.TaskID == "" {
			return errors.New("a board is that of a task, and none is named")
		}
		return nil
	case *AgentEvent:
		if p.Kind != AgentGone || e.From != Cortex {
			return fmt.Errorf("a %q of an agent from %s: only the orchestrator says that one has gone", p.Kind, e.From)
		}
		return nil
	}
	kind, _ := PayloadKind(e.Payload)
	return fmt.Errorf("a %s is nothing for the orchestrator's inbox", kind)
}
