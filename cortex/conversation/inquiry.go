package conversation

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Inquiry reports whether an agent asks by e whether its task is still wanted, and which: it reports the task as not begun. The request to stop a task is
// live, so an agent that was away may have missed it.
func Inquiry(e *transport.Event) (task a2a.TaskID, ok bool) {
	p, ok := e.Payload.(*a2a.TaskStatusUpdateEvent)
	if !ok || p.Status.State != a2a.TaskStateSubmitted || !IsAgent(e.From) || e.From == transport.Cortex {
		return "", false
	}
	return p.TaskID, true
}

// Stop returns the answer to an inquiry: the request to stop the task, once more. It returns false if e is none, or the agent has the task.
func (c *Conversation) Stop(e *transport.Event, now time.Time) (Effect, bool) {
	id, ok := Inquiry(e)
	if t := c.Tasks[id]; !ok || t != nil && t.Agent == e.From && !t.Phase.Over() {
		return Effect{}, false
	}
	var out []Effect
	effects{c: c, out: &out}.add(nil, transport.Control(c.Tenant, e.From), transport.Event{
		ID: c.ID(c.Seq, "stop:"+e.ID, 0), Time: now, TaskID: id, Payload: &transport.Cancel{TaskID: id, Reason: "nobody waits for it any more"},
	})
	return out[0], true
}
