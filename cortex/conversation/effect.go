package conversation

import (
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Effect is an event that follows from an entry, and the topic it goes to.
type Effect struct {
	Topic transport.Topic
	Event *transport.Event
}

// Effects returns what entry seq, the last or an earlier one, wants sent and is still of use, in the order of sending. It follows from the
// fold alone and its ids are derived, so sending it twice is harmless. Effects leaves out how the tasks in shown ended, which people have
// seen already (see Settled).
func (c *Conversation) Effects(seq uint64, shown ...a2a.TaskID) []Effect {
	out := make([]Effect, 0, 4) // enough for most entries
	o := effects{c: c, seq: seq, out: &out}
	timed := c.settledQuestion(seq)
	for _, t := range c.settledBy(seq) {
		if !slices.Contains(shown, t.ID) {
			o.settled(t)
		}
		if t.Stopped {
			o.stop(t, t.Agent, t.Settled, t.Result)
		}
		// The task's timer has fired, but another task may have the same deadline.
		timed = timed || t.Stopped || t.SentSeq == 0 && t.Phase == Canceled
	}
	for _, t := range c.Running() {
		if t.SentSeq == seq {
			if a := t.attemptEndedBy(seq); a != nil {
				o.again(t, a)
			}
			o.task(t)
		}
		timed = timed || t.SentSeq == seq || t.TimedSeq == seq
	}
	o.posted()
	if at := c.NextDeadline(); timed && !at.IsZero() {
		o.timer(at, at)
	}
	for _, turn := range c.Turns {
		if turn.AnswerSeq == seq {
			o.answer(turn)
			o.delivered(turn)
		}
	}
	return out
}

// Settled returns those effects of entry seq that show people how tasks ended.
func (c *Conversation) Settled(seq uint64) []Effect {
	var out []Effect
	for _, t := range c.settledBy(seq) {
		effects{c: c, seq: seq, out: &out}.settled(t)
	}
	return out
}

// settledBy returns the tasks that entry seq settled.
func (c *Conversation) settledBy(seq uint64) []*Task {
	return c.tasks(func(t *Task) bool { return t.SettledSeq == seq }, func(t *Task) uint64 { return t.SentSeq })
}

// settledQuestion reports whether entry seq left a task waiting for the user, which has a deadline as well.
func (c *Conversation) settledQuestion(seq uint64) bool {
	return slices.ContainsFunc(append(c.Asking(), c.Held()...), func(t *Task) bool { return t.SettledSeq == seq })
}

type effects struct {
	c   *Conversation
	seq uint64
	out *[]Effect
}

// add adds an event that follows from turn, or from no turn (nil).
func (o effects) add(turn *Turn, topic transport.Topic, e transport.Event) {
	if turn != nil {
		e.Traceparent, e.Tracestate = turn.Trace.Parent, turn.Trace.State
	}
	e.From, e.Tenant, e.ContextID = transport.Cortex, o.c.Tenant, o.c.ContextID
	if topic.Kind == transport.KindInbox {
		e.To = topic.ID
	}
	*o.out = append(*o.out, Effect{topic, &e})
}

func (o effects) id(kind string, index int) string {
	return o.c.ID(o.seq, kind, index)
}

func (o effects) live() transport.Topic { return transport.Live(o.c.Tenant, o.c.ContextID) }

// again shows on the live topic that a task is tried again, and stops the agent that had it before.
func (o effects) again(t *Task, before *Attempt) {
	text := prompt.Clean(t.Agent, maxTriedAgent) + " once more: " + before.Why
	if before.Agent != t.Agent {
		text = prompt.Clean(t.Agent, maxTriedAgent) + " instead of " + prompt.Clean(before.Agent, maxTriedAgent) + ": " + before.Why
	}
	o.add(o.c.Turn(t.Turn), o.live(), transport.Event{
		ID: o.id("again:"+string(t.ID), 0), Time: t.Sent, TaskID: t.ID,
		Payload: &a2a.TaskStatusUpdateEvent{
			TaskID: t.ID, ContextID: o.c.ContextID,
			Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: &t.Sent, Message: &a2a.Message{
				ID: o.id("again words:"+string(t.ID), 0), ContextID: o.c.ContextID, TaskID: t.ID, Role: a2a.MessageRoleAgent,
				Parts: a2a.ContentParts{a2a.NewTextPart(text)},
			}},
			Metadata: map[string]any{transport.MetaAgentID: t.Agent, transport.MetaTurn: t.Turn, transport.MetaAttempt: t.Attempt},
		},
	})
	if before.Agent != t.Agent {
		o.stop(t, before.Agent, t.Sent, before.Why)
	}
}

// stop sends an agent the request to stop a task.
func (o effects) stop(t *Task, agent string, at time.Time, why string) {
	o.add(o.c.Turn(t.Turn), transport.Control(o.c.Tenant, agent), transport.Event{
		ID: o.id("stop:"+string(t.ID), 0), Time: at, TaskID: t.ID, Payload: &transport.Cancel{TaskID: t.ID, Turn: t.Turn, Reason: shorten.Marked(why, transport.MaxCancelReason-len("…"), "…")},
	})
}

// task sends a task to its agent, and shows it on the live topic.
func (o effects) task(t *Task) {
	turn := o.c.Turn(t.Turn)
	m := &a2a.Message{
		ID: o.id("message", t.SentIndex), ContextID: o.c.ContextID, TaskID: t.ID, Role: a2a.MessageRoleUser,
		Parts: a2a.ContentParts{a2a.NewTextPart(t.Text)},
		Metadata: map[string]any{
			transport.MetaTaskType:  t.taskType(),
			transport.MetaAgentID:   t.Agent,
			transport.MetaTaskID:    string(t.ID),
			transport.MetaRequester: turn.From,
			transport.MetaUserText:  Truncate(turn.Request(), maxResult),
			transport.MetaDeadline:  t.Sent.Add(t.Timeout).UTC().Format(time.RFC3339Nano),
			transport.MetaHops:      turn.Hops + 1,
			transport.MetaAncestors: append(slices.Clone(turn.Ancestors), ancestor(turn)...),
			transport.MetaTurn:      turn.ID,
			transport.MetaAttempt:   t.Attempt,
		},
	}
	if t.Continued {
		m.Metadata[transport.MetaContinued] = true
	}
	if t.Terms.Board {
		m.Metadata[transport.MetaBoard] = true
	}
	if turn.TimeZone != "" {
		m.Metadata[transport.MetaTimeZone] = turn.TimeZone
	}
	if turn.Locale != "" {
		m.Metadata[transport.MetaLocale] = turn.Locale
	}
	if !t.Latest.IsZero() {
		m.Metadata[transport.MetaLatest] = t.Latest.UTC().Format(time.RFC3339Nano)
	}
	if len(t.Input) > 0 {
		m.Parts = append(m.Parts, a2a.NewDataPart(t.Input))
	}
	files := fitIntoMessage(o.c.filesFor(t))
	asked := slices.Clip(m.Parts) // what people see: files without their bytes, and the names of results
	for _, p := range files {
		if key := FileKey(p); key != "" && p.Text() != "" {
			asked = append(asked, a2a.NewTextPart("["+key+"]"))
			continue
		}
		asked = append(asked, transport.ForgottenFile(p))
	}
	m.Parts = append(m.Parts, files...)
	o.results(t, m)
	if t.attemptEndedBy(o.seq) == nil { // else again has shown it
		o.given(t, m, asked)
	}
	o.add(turn, transport.Inbox(o.c.Tenant, t.Agent), transport.Event{ID: o.id("work", t.SentIndex), Time: t.Sent, TaskID: t.ID, Payload: m})
}

// results adds the results of the tasks that a task needs to the message with it, cut where the room ends.
func (o effects) results(t *Task, m *a2a.Message) {
	room := roomForTexts(t.Text)
	for _, p := range t.Along {
		room -= len(p.Text())
	}
	attach := func(d *Task, name, text string) {
		if text == "" || room <= 0 {
			return
		}
		part := a2a.NewTextPart(Truncate(text, room))
		part.Filename = name
		part.SetMeta(transport.MetaAgentID, d.Agent)
		m.Parts = append(m.Parts, part)
		room -= len(text)
	}
	for _, id := range t.DependsOn {
		if d := o.c.Tasks[id]; d != nil {
			m.ReferenceTasks = append(m.ReferenceTasks, id)
			attach(d, string(id), d.Result)
			for _, a := range d.Artifacts {
				attach(d, a.Name, a.Text)
			}
		}
	}
}

// given shows on the live topic that a task is given to its agent, with the parts of message m that people see.
func (o effects) given(t *Task, m *a2a.Message, asked a2a.ContentParts) {
	turn := o.c.Turn(t.Turn)
	o.add(turn, o.live(), transport.Event{
		ID: o.id("given", t.SentIndex), Time: t.Sent, TaskID: t.ID,
		Payload: &a2a.Task{
			ID: t.ID, ContextID: o.c.ContextID, History: []*a2a.Message{{
				ID: m.ID, ContextID: m.ContextID, TaskID: m.TaskID, Role: m.Role, Parts: asked,
				Metadata: map[string]any{transport.MetaAgentID: t.Agent},
			}},
			Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: &t.Sent},
			Metadata: map[string]any{
				transport.MetaAgentID: t.Agent, transport.MetaTaskType: t.taskType(), transport.MetaTurn: t.Turn,
				transport.MetaReason: turn.reasonOf(t.ID),
			},
		},
	})
}

func ancestor(turn *Turn) []string {
	if IsAgent(turn.From) {
		return []string{turn.From}
	}
	return nil
}

// settled shows on the live topic how a task ended.
func (o effects) settled(t *Task) {
	status := a2a.TaskStatus{State: t.State(), Timestamp: &t.Settled}
	if t.Result != "" {
		status.Message = &a2a.Message{
			ID: o.id("words:"+string(t.ID), 0), ContextID: o.c.ContextID, TaskID: t.ID, Role: a2a.MessageRoleAgent,
			Parts: a2a.ContentParts{a2a.NewTextPart(t.Result)},
		}
	}
	o.add(o.c.Turn(t.Turn), o.live(), transport.Event{
		ID: o.id("settled:"+string(t.ID), 0), Time: t.Settled, TaskID: t.ID,
		Payload: &a2a.TaskStatusUpdateEvent{
			TaskID: t.ID, ContextID: o.c.ContextID, Status: status,
			Metadata: map[string]any{transport.MetaAgentID: t.Agent, transport.MetaTurn: o.shownIn(t)},
		},
	})
}

// shownIn returns the turn in which people see that t was settled: the turn that the same entry began, or else t's own.
func (o effects) shownIn(t *Task) string {
	for _, turn := range o.c.Turns {
		if turn.Seq == t.SettledSeq {
			return turn.ID
		}
	}
	return t.Turn
}

// Wake returns the next timer of the conversation, after deadline d arrived at time now and no task was overdue. Either the task of that
// deadline is done: then the timer is for the earliest remaining deadline. Or d arrived early, because the transport's clock is ahead:
// then the timer is delayed by as much as d was early, from the time that the transport says it was then, stored; zero if it does not say. A clock
// that is ahead by more than the task has would otherwise have one timer fire after the other, at once. Wake returns false when no deadline remains.
func (c *Conversation) Wake(d *transport.Deadline, now, stored time.Time) (Effect, bool) {
	at := c.NextDeadline()
	if at.IsZero() {
		return Effect{}, false
	}
	due := at
	if early := at.Sub(now); early > 0 && d.At.Equal(at) {
		if stored.After(at) {
			due = stored
		}
		due = due.Add(early)
	}
	var out []Effect
	effects{c: c, seq: c.Seq, out: &out}.timer(at, due)
	return out[0], true
}

// timer asks the transport to deliver the conversation's earliest deadline, at, at time due. It replaces an earlier timer.
func (o effects) timer(at, due time.Time) {
	o.add(nil, transport.Inbox(o.c.Tenant, transport.Cortex), transport.Event{
		ID: o.id("timer:"+due.UTC().Format(time.RFC3339Nano), 0), Time: at, DeliverAt: due, Payload: &transport.Deadline{At: at},
	})
}

// delivered sends the receipt of a turn's question after the question (see reply.go): Cortex receives it before all later replies.
func (o effects) delivered(turn *Turn) {
	if len(o.c.heldIn(turn.ID)) > 0 {
		o.add(turn, transport.Inbox(o.c.Tenant, transport.Cortex), transport.Event{
			ID: o.c.deliveredID(turn), Time: turn.Asked, Payload: &transport.Deadline{At: turn.Asked},
		})
	}
}

// metaUsage is the metadata key of an answer for what the whole turn used: the tokens "input", "cached" (a part of input) and "output", and
// their "cost". It is absent when no model was used.
const metaUsage = "usage"

// answer shows the answer on the live topic. An agent that asked gets it in its inbox, where it stays until the agent takes it, and on its
// control topic, which reaches the waiting instance even when all its capacity is used by tasks that wait as well.
func (o effects) answer(turn *Turn) {
	m := &a2a.Message{
		ID: o.id("answer:"+turn.ID, 0), ContextID: o.c.ContextID, Role: a2a.MessageRoleAgent,
		Parts: append(a2a.ContentParts{a2a.NewTextPart(turn.Answer)}, turn.Out...),
		Metadata: map[string]any{
			transport.MetaTurn: turn.ID, transport.MetaMessage: turn.Message, transport.MetaRequester: turn.From,
			transport.MetaDecision: string(turn.Kind), transport.MetaReason: turn.Reason,
			transport.MetaModel: turn.Model, transport.MetaFailed: turn.Failed,
		},
	}
	if turn.Usage != (llm.Usage{}) {
		m.Metadata[metaUsage] = map[string]any{
			"input": turn.Usage.Input, "cached": turn.Usage.Cached, "cache_write": turn.Usage.CacheWrite,
			"output": turn.Usage.Output, "reasoning": turn.Usage.Reasoning, "cost": turn.Usage.Cost,
		}
	}
	if turn.Settled {
		m.Metadata[transport.MetaSettled] = turn.Answered.UTC().Format(time.RFC3339Nano)
	}
	e := transport.Event{ID: m.ID, Time: turn.Answered, Payload: m}
	if IsAgent(turn.From) && !turn.ByClient {
		o.add(turn, transport.Inbox(o.c.Tenant, turn.From), e)
		o.add(turn, transport.Control(o.c.Tenant, turn.From), e)
	}
	o.add(turn, o.live(), e)
}

// Open reports whether a sender's message with this id has begun a turn that is not answered.
func (c *Conversation) Open(from, messageID string) bool {
	turn := c.begunBy(from, messageID)
	return turn != nil && turn.Open()
}

// AnsweredIn returns the place of the entry that answered an agent's message e, and 0 for any other event and for an unanswered message.
func (c *Conversation) AnsweredIn(e *transport.Event) uint64 {
	if _, ok := transport.Request(e); !ok || !IsAgent(e.From) {
		return 0
	}
	if turn := c.begunBy(e.From, e.ID); turn != nil && !turn.ByClient {
		return turn.AnswerSeq
	}
	return 0
}

// AnswerOf returns the answer to a sender's message with this id as it is sent to people, if the turn has been answered.
func (c *Conversation) AnswerOf(from, messageID string) (*a2a.Message, bool) {
	turn := c.begunBy(from, messageID)
	if turn == nil || turn.Open() {
		return nil, false
	}
	var out []Effect
	effects{c: c, seq: turn.AnswerSeq, out: &out}.answer(turn)
	return out[len(out)-1].Event.Payload.(*a2a.Message), true
}

// IsAgent reports whether a sender is an agent rather than a person.
func IsAgent(from string) bool {
	return from != "user" && !strings.HasPrefix(from, "user:")
}

// ToInbox reports whether the answer to message e goes to its sender's inbox as well: to that of an agent that asks by itself. Everybody else asks by
// a client, which reads the answer from Live and the log.
func ToInbox(e *transport.Event) bool {
	m, ok := transport.Request(e)
	return IsAgent(e.From) && !(ok && byClient(m))
}

func byClient(m *a2a.Message) bool {
	by, _ := m.Metadata[transport.MetaByClient].(bool)
	return by
}

// Withdrawal names the event of a task to be removed from an agent's inbox.
type Withdrawal struct{ Agent, EventID string }

// Withdrawals returns the tasks that entry seq took from their agents.
func (c *Conversation) Withdrawals(seq uint64) []Withdrawal {
	var all []Withdrawal
	add := func(agent string, sent uint64, index int) {
		all = append(all, Withdrawal{agent, c.ID(sent, "work", index)})
	}
	for _, t := range c.Tasks {
		if t.SettledSeq == seq && t.Stopped {
			add(t.Agent, t.SentSeq, t.SentIndex)
		}
		if a := t.attemptEndedBy(seq); a != nil {
			add(a.Agent, a.SentSeq, a.SentIndex)
		}
	}
	return all
}

// Wants reports whether the event with that id sends a task that its receiver still has to do.
func (c *Conversation) Wants(id a2a.TaskID, eventID string) bool {
	t := c.Tasks[id]
	return t != nil && t.Running() && c.WorkID(t) == eventID
}

// WorkID returns the id of the event that sends t, which is with its agent or in the orchestrator's queue.
func (c *Conversation) WorkID(t *Task) string { return c.ID(t.SentSeq, "work", t.SentIndex) }

// Work returns the event that sends t, as far as inboxes identify it.
func (c *Conversation) Work(t *Task) *transport.Event {
	return &transport.Event{ID: c.WorkID(t), From: transport.Cortex, ContextID: c.ContextID, TaskID: t.ID}
}

// Sending returns the effect that sends a task, if the event with that id still has to be sent.
func (c *Conversation) Sending(id a2a.TaskID, eventID string) (Effect, bool) {
	if !c.Wants(id, eventID) {
		return Effect{}, false
	}
	var out []Effect
	t := c.Tasks[id]
	effects{c: c, seq: t.SentSeq, out: &out}.task(t)
	return out[len(out)-1], true
}

// Unlogged returns the effects that answer an open turn when its log can take no more entries.
func (c *Conversation) Unlogged(turn *Turn, why string, at time.Time) []Effect {
	ended := *turn
	ended.Failed, ended.Answer, ended.Answered = true, why, at
	var out []Effect
	effects{c: c, seq: c.Seq, out: &out}.answer(&ended)
	return out
}

// Refusal returns the effects that answer a message which is not logged, as if its turn had ended at once.
func Refusal(tenant string, e *transport.Event, why string, at time.Time) []Effect {
	m, ok := transport.Request(e)
	if !ok {
		m = &a2a.Message{}
	}
	turn := newTurn(&Entry{Cause: e, Time: at, Turn: transport.TurnID(tenant, e.ContextID, e.From, e.ID)}, m)
	turn.Failed, turn.Answer, turn.Answered = true, why, at
	var out []Effect
	effects{c: NewConversation(tenant, e.ContextID), out: &out}.answer(turn)
	return out
}
