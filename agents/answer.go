package agents

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// answer sends the result of a task, and returns nil once it is stored. When the outcome belongs to a later attempt than m's, it sends
// nothing: the message of that attempt is answered.
func (a *agent) answer(e *transport.Event, m *a2a.Message, out outcome) error {
	if attemptOf(m) < out.attempt {
		return nil
	}
	if out.refused {
		out.state = a2a.TaskStateFailed
	}
	inbox := transport.Inbox(a.o.Tenant, transport.Cortex)
	err := a.publish(a.sending, inbox, a.resultEvent(e, m, out))
	if errors.Is(err, transport.ErrInvalid) {
		a.log.Warn("result refused by the transport", "task_id", taskID(e, m), "err", err)
		out.refused, out.parts, out.artifacts, out.worked = true, words("the agent's result cannot be sent: "+errorText(err)), nil, 0
		a.finished.put(taskID(e, m), out, out.weight())
		out.state = a2a.TaskStateFailed
		err = a.publish(a.sending, inbox, a.resultEvent(e, m, out))
	}
	if err != nil {
		return fmt.Errorf("send the result of task %s: %w", taskID(e, m), err)
	}
	return nil
}

// resultNamespace is the name space of result ids, which are derived so that sending a result again is harmless.
var resultNamespace = uuid.MustParse("5b0e2d9c-6f6c-4f0e-9b1f-0d6f4a1c7e55")

func (a *agent) resultEvent(e *transport.Event, m *a2a.Message, out outcome) *transport.Event {
	now, id := time.Now(), taskID(e, m)
	round := "result"
	switch n := attemptOf(m); {
	case !out.state.Terminal():
		round = "question " + out.messageID
	case n > 1: // the result of the previous attempt has the id without a number
		round = "result " + strconv.Itoa(n)
	}
	eventID := uuid.NewSHA1(resultNamespace, []byte(strings.Join([]string{a.o.Tenant, a.id, string(id), round}, "\x00"))).String()
	meta := map[string]any{
		transport.MetaTaskType: a.resultType(m), transport.MetaAgentID: a.id, transport.MetaTaskID: string(id),
		transport.MetaOriginalMessage: m.ID, transport.MetaCreatedAt: now.Format(time.RFC3339),
	}
	if n, ok := m.Metadata[transport.MetaAttempt]; ok {
		meta[transport.MetaAttempt] = n
	}
	t := &a2a.Task{
		ID: id, ContextID: e.ContextID, Status: a2a.TaskStatus{State: out.state, Timestamp: &now}, Artifacts: out.artifacts, Metadata: meta,
	}
	if len(out.parts) > 0 {
		t.Status.Message = &a2a.Message{
			ID: eventID, ContextID: e.ContextID, TaskID: id, Role: a2a.MessageRoleAgent, Parts: out.parts, Metadata: maps.Clone(meta),
		}
	}
	if out.worked > 0 {
		meta[transport.MetaWorked] = out.worked.Round(time.Microsecond).Seconds()
	}
	return &transport.Event{
		ID: eventID, Time: now, From: a.id, To: transport.Cortex, Tenant: a.o.Tenant, ContextID: e.ContextID, TaskID: id,
		Traceparent: e.Traceparent, Tracestate: e.Tracestate, Payload: t,
	}
}

// resultType is the task_type of a result: "echo_result" for an "echo_request" or a task for the skill "echo".
func (a *agent) resultType(m *a2a.Message) string {
	skill := strings.TrimSuffix(transport.MetaString(m, transport.MetaTaskType), "_request")
	if card := a.shown(); skill == "" && len(card.Skills) == 1 {
		skill = card.Skills[0].ID
	}
	return cmp.Or(skill, "task") + "_result"
}

func words(text string) a2a.ContentParts { return a2a.ContentParts{a2a.NewTextPart(text)} }
