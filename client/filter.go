package client

import (
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// filter selects the events of one turn among the live events of its conversation. Cortex names the turn in everything it sends. Agents do
// not know it: the filter recognises their progress by the task, and by the agent to which the task was given.
type filter struct {
	turn  string
	tasks map[a2a.TaskID]*watchedTask
	// early holds progress that arrived before its task, which has another sender, in the order of arrival.
	early []*transport.Event
}

type watchedTask struct {
	agent   string // "" if unknown
	settled bool
}

// Bounds of what a filter remembers of one turn; events beyond them are not shown.
const (
	maxTasks     = 1024
	maxEarly     = 64
	maxEarlyOwn  = 16      // of one sender
	maxEarlyText = 4 << 10 // bytes of the text of each
)

// pass returns the events to show now that e has arrived: none, e, or e and the early events that it releases.
func (f *filter) pass(e *transport.Event) []*transport.Event {
	cortex := e.From == transport.Cortex
	switch p := e.Payload.(type) {
	case *transport.Delta:
		if cortex && p.Turn == f.turn {
			return []*transport.Event{e}
		}
	case *a2a.Message:
		if f.isAnswer(e) {
			return []*transport.Event{e}
		}
	case *a2a.Task:
		if cortex && transport.MetaString(p, transport.MetaTurn) != f.turn {
			f.release(p.ID)
			return nil
		}
		if cortex && f.watch(p.ID, TaskAgent(p)) {
			return append([]*transport.Event{e}, f.release(p.ID)...)
		}
	case *a2a.TaskStatusUpdateEvent:
		if !cortex {
			return f.progress(e, p.TaskID)
		}
		t := f.tasks[p.TaskID]
		if turn := transport.MetaString(p, transport.MetaTurn); turn != f.turn && (turn != "" || t == nil) {
			return nil
		}
		if t == nil { // the event of its delegation was lost
			if !f.watch(p.TaskID, transport.MetaString(p, transport.MetaAgentID)) {
				return nil
			}
			t = f.tasks[p.TaskID]
		}
		if t.settled {
			return nil
		}
		t.settled = p.Status.State.Terminal()
		if p.Status.State == a2a.TaskStateSubmitted { // retried, perhaps by another agent
			t.agent = transport.MetaString(p, transport.MetaAgentID)
		}
		return []*transport.Event{e}
	case *a2a.TaskArtifactUpdateEvent:
		return f.progress(e, p.TaskID)
	}
	return nil
}

// isAnswer reports whether e ends the turn.
func (f *filter) isAnswer(e *transport.Event) bool {
	m, ok := e.Payload.(*a2a.Message)
	return ok && e.From == transport.Cortex && m.Role == a2a.MessageRoleAgent && transport.MetaString(m, transport.MetaTurn) == f.turn
}

// watch remembers a task and reports whether it is new.
func (f *filter) watch(id a2a.TaskID, agent string) bool {
	if f.tasks[id] != nil || len(f.tasks) >= maxTasks {
		return false
	}
	if f.tasks == nil {
		f.tasks = make(map[a2a.TaskID]*watchedTask)
	}
	f.tasks[id] = &watchedTask{agent: agent}
	return true
}

// progress passes an agent's event about a task of its own.
func (f *filter) progress(e *transport.Event, id a2a.TaskID) []*transport.Event {
	t := f.tasks[id]
	if t == nil {
		if p, ok := e.Payload.(*a2a.TaskStatusUpdateEvent); ok {
			f.keep(brief(e, p))
		}
		return nil
	}
	if t.settled || (t.agent != "" && e.From != t.agent) {
		return nil
	}
	return []*transport.Event{e}
}

// brief returns progress with no more than what people are shown of it: anybody may send it, and it is kept until its turn ends. It is no copy of e, which
// would keep what e was decoded from.
func brief(e *transport.Event, p *a2a.TaskStatusUpdateEvent) *transport.Event {
	to := &a2a.TaskStatusUpdateEvent{
		TaskID: a2a.TaskID(shorten.To(string(p.TaskID), transport.MaxID)), ContextID: shorten.To(p.ContextID, transport.MaxID), // a payload may have longer ones
		Status: a2a.TaskStatus{State: p.Status.State, Timestamp: p.Status.Timestamp},
	}
	for _, k := range []string{transport.MetaAgentID, transport.MetaTurn} {
		if v := transport.MetaString(p, k); v != "" && len(v) <= maxEarlyText {
			to.SetMeta(k, v)
		}
	}
	if m := p.Status.Message; m != nil {
		text := shorten.To(transport.Text(m.Parts), maxEarlyText)
		to.Status.Message = &a2a.Message{
			ID: shorten.To(m.ID, transport.MaxID), Role: a2a.MessageRole(shorten.To(string(m.Role), transport.MaxID)), Parts: a2a.ContentParts{a2a.NewTextPart(text)},
		}
	}
	return &transport.Event{
		ID: e.ID, Time: e.Time, From: e.From, To: e.To, Tenant: e.Tenant, ContextID: e.ContextID, TaskID: e.TaskID,
		Traceparent: e.Traceparent, Tracestate: e.Tracestate, Payload: to,
	}
}

// keep remembers an event that may be early. Most are of other turns. Each sender has places of its own, and what it says later takes the place of what
// it said before; when all are taken, the sender with the most gives one up. So no sender takes the place of another that says less.
func (f *filter) keep(e *transport.Event) {
	count := map[string]int{e.From: 1}
	for _, o := range f.early {
		count[o.From]++
	}
	from := e.From
	if count[from] <= maxEarlyOwn {
		if len(f.early) < maxEarly {
			f.early = append(f.early, e)
			return
		}
		for _, o := range f.early {
			if count[o.From] > count[from] {
				from = o.From
			}
		}
	}
	first := slices.IndexFunc(f.early, func(o *transport.Event) bool { return o.From == from })
	first = max(first, 0) // as many senders as places
	f.early = append(slices.Delete(f.early, first, first+1), e)
}

// release removes the early events of task id, and returns those to show.
func (f *filter) release(id a2a.TaskID) []*transport.Event {
	var out []*transport.Event
	keep := f.early[:0]
	for _, e := range f.early {
		if TaskOf(e) != id {
			keep = append(keep, e)
			continue
		}
		out = append(out, f.progress(e, id)...)
	}
	f.early = keep
	return out
}

// TaskOf returns the id of the task that e is about, or "".
func TaskOf(e *transport.Event) a2a.TaskID {
	switch p := e.Payload.(type) {
	case *a2a.Task:
		return p.ID
	case *a2a.TaskStatusUpdateEvent:
		return p.TaskID
	case *a2a.TaskArtifactUpdateEvent:
		return p.TaskID
	}
	return ""
}

// TaskAgent returns the agent that a task was given to, or "".
func TaskAgent(t *a2a.Task) string {
	if agent := transport.MetaString(t, transport.MetaAgentID); agent != "" {
		return agent
	}
	if len(t.History) > 0 && t.History[0] != nil {
		return transport.MetaString(t.History[0], transport.MetaAgentID)
	}
	return ""
}
