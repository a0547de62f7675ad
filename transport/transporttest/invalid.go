package transporttest

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// invalid is an event that every transport refuses.
type invalid struct {
	name  string
	topic transport.Topic
	spoil func(*transport.Event)
	large bool // the error is ErrTooLarge as well
}

var invalidEvents = []invalid{
	{name: "no id", topic: worker, spoil: func(e *transport.Event) { e.ID = "" }},
	{name: "long id", topic: worker, spoil: func(e *transport.Event) { e.ID = strings.Repeat("x", transport.MaxID+1) }},
	{name: "id with a newline", topic: worker, spoil: func(e *transport.Event) { e.ID = "a\nb" }},
	{name: "id not UTF-8", topic: worker, spoil: func(e *transport.Event) { e.ID = "a\xff" }},
	{name: "no sender", topic: worker, spoil: func(e *transport.Event) { e.From = "" }},
	{name: "sender with a space", topic: worker, spoil: func(e *transport.Event) { e.From = "a b" }},
	{name: "task id with a space", topic: worker, spoil: func(e *transport.Event) { e.TaskID = "a b" }},
	{name: "another receiver", topic: worker, spoil: func(e *transport.Event) { e.To = "other" }},
	{name: "another tenant", topic: worker, spoil: func(e *transport.Event) { e.Tenant = "other" }},
	{name: "no conversation", topic: worker, spoil: func(e *transport.Event) { e.ContextID = "" }},
	{name: "conversation with a space", topic: worker, spoil: func(e *transport.Event) { e.ContextID = "a b" }},
	{name: "no agent", topic: transport.Inbox("", ""), spoil: func(e *transport.Event) { e.To = "" }},
	{name: "agent with a space", topic: transport.Inbox("", "a b"), spoil: func(e *transport.Event) { e.To = "" }},
	{name: "no live topic", topic: transport.Live("", ""), spoil: func(*transport.Event) {}},
	{name: "no topic", topic: transport.Topic{}, spoil: func(*transport.Event) {}},
	{name: "unknown topic", topic: transport.Topic{Kind: "shelf", ID: "x"}, spoil: func(*transport.Event) {}},
	{name: "no payload", topic: worker, spoil: func(e *transport.Event) { e.Payload = nil }},
	{name: "nil payload", topic: worker, spoil: func(e *transport.Event) { e.Payload = (*a2a.Message)(nil) }},
	{name: "foreign payload", topic: worker, spoil: func(e *transport.Event) { e.Payload = "text" }},
	{name: "payload by value", topic: worker, spoil: func(e *transport.Event) { e.Payload = transport.Cancel{} }},
	{name: "delayed on live", topic: transport.Live("", "c1"), spoil: func(e *transport.Event) { e.DeliverAt = time.Now() }},
	{name: "message without parts", topic: worker, spoil: parts()},
	{name: "message without text", topic: worker, spoil: parts(a2a.NewTextPart(""), a2a.NewTextPart(""))},
	{name: "message with a nil part", topic: worker, spoil: parts(a2a.NewTextPart("x"), nil)},
	{name: "message with an empty part", topic: worker, spoil: parts(a2a.NewTextPart("x"), &a2a.Part{})},
	{name: "message with an empty file", topic: worker, spoil: parts(a2a.NewTextPart("x"), a2a.NewRawPart(nil))},
	{name: "message with empty data", topic: worker, spoil: parts(a2a.NewDataPart(nil))},
	{name: "message with an empty URL", topic: worker, spoil: parts(a2a.NewFileURLPart("", "text/html"))},
	{name: "kind with a newline", topic: worker, spoil: func(e *transport.Event) { e.Payload = &transport.Opaque{Kind: "a\nb", Version: "1"} }},
	{name: "version with a newline", topic: worker, spoil: func(e *transport.Event) { e.Payload = &transport.Opaque{Kind: "a", Version: "1\n"} }},
	{name: "message not UTF-8", topic: worker, spoil: parts(a2a.NewTextPart("a\xffb"))},
	{name: "message that is no JSON", topic: worker, spoil: parts(a2a.NewDataPart(math.NaN()))},
	{name: "message too long", topic: worker, spoil: parts(a2a.NewTextPart(strings.Repeat("x", transport.MaxText+1))), large: true},
	{
		name: "message too long in parts", topic: worker, large: true,
		spoil: parts(a2a.NewTextPart(strings.Repeat("x", transport.MaxText)), a2a.NewTextPart("x")),
	},
	{name: "payload too large", topic: worker, large: true, spoil: func(e *transport.Event) {
		e.Payload = &transport.Opaque{Kind: "blob", Version: "1", Data: make([]byte, transport.MaxPayload+1)}
	}},
	{name: "file too large", topic: worker, spoil: parts(a2a.NewRawPart(make([]byte, transport.MaxPayload))), large: true},
	{name: "task without id", topic: worker, spoil: func(e *transport.Event) {
		e.Payload = &a2a.Task{Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
	}},
	{name: "task with a hollow artifact", topic: worker, spoil: func(e *transport.Event) {
		e.Payload = &a2a.Task{
			ID: "t1", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted},
			Artifacts: []*a2a.Artifact{{ID: "a1", Parts: a2a.ContentParts{a2a.NewRawPart(nil)}}},
		}
	}},
	{name: "task without state", topic: worker, spoil: func(e *transport.Event) { e.Payload = &a2a.Task{ID: "t1"} }},
	{name: "unknown state", topic: transport.Live("", "c1"), spoil: func(e *transport.Event) {
		e.Payload = &a2a.TaskStatusUpdateEvent{TaskID: "t1", Status: a2a.TaskStatus{State: "TASK_STATE_DREAMING"}}
	}},
	{name: "cancellation with a long reason", topic: worker, spoil: func(e *transport.Event) {
		e.Payload = &transport.Cancel{Reason: strings.Repeat("x", transport.MaxCancelReason+1)}
	}},
	{name: "cancellation of a long turn", topic: worker, spoil: func(e *transport.Event) {
		e.Payload = &transport.Cancel{Turn: strings.Repeat("x", transport.MaxID+1)}
	}},
	{name: "cancellation of a long task", topic: transport.Control("", transport.Cortex), spoil: func(e *transport.Event) {
		e.Payload = &transport.Cancel{TaskID: a2a.TaskID(strings.Repeat("x", transport.MaxID+1))}
	}},
	{name: "artifact update without artifact", topic: transport.Live("", "c1"), spoil: func(e *transport.Event) {
		e.Payload = &a2a.TaskArtifactUpdateEvent{TaskID: "t1"}
	}},
	{name: "no card", topic: transport.Cards(""), spoil: func(e *transport.Event) { e.Payload = &transport.Cancel{} }},
	{name: "card without name", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.Card.Name = "  " })},
	{name: "card without agent", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.AgentID = "" })},
	{name: "card without instance", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.Instance = "" })},
	{name: "card without card", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.Card = nil })},
	{name: "card with a negative ttl", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.TTL = -time.Second })},
	{name: "card with a short ttl", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.TTL = time.Millisecond })},
	{name: "card with a negative heartbeat", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.Heartbeat = -1 })},
	{name: "card with an endless heartbeat", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) {
		c.Heartbeat = transport.MaxHeartbeat + 1
	})},
	{name: "event of an agent by another", topic: transport.Cards(""), spoil: func(e *transport.Event) {
		e.Payload = &transport.AgentEvent{Kind: "registered", AgentID: e.From}
	}},
	{name: "event of no agent", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) { a.AgentID = "" })},
	{name: "event of no kind", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) { a.Kind = "" })},
	{name: "event with an odd state", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) { a.State = "a\nb" })},
	{name: "event with an odd instance", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) { a.Instance = "a b" })},
	{name: "event with a long reason", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) {
		a.Reason = strings.Repeat("x", transport.MaxReason+1)
	})},
	{name: "event with too many skills", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) {
		a.Removed = make([]string, transport.MaxSkills+1)
	})},
	{name: "event with less than nothing", topic: transport.Cards(""), spoil: onTold(func(a *transport.AgentEvent) { a.Instances = -1 })},
	{name: "card gone strangely", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) { c.Gone = "fishing" })},
	{name: "card with a nameless skill", topic: transport.Cards(""), spoil: onCard(func(c *transport.Card) {
		c.Card.Skills = []a2a.AgentSkill{{Description: "x"}}
	})},
	{name: "card with too many skills", topic: transport.Cards(""), large: true, spoil: onCard(func(c *transport.Card) {
		c.Card.Skills = make([]a2a.AgentSkill, transport.MaxSkills+1)
		for i := range c.Card.Skills {
			c.Card.Skills[i].ID = "s"
		}
	})},
	{name: "card too large", topic: transport.Cards(""), large: true, spoil: onCard(func(c *transport.Card) {
		c.Card.Description = strings.Repeat("x", transport.MaxCard)
	})},
}

func parts(p ...*a2a.Part) func(*transport.Event) {
	return func(e *transport.Event) { e.Payload = &a2a.Message{ID: "m1", Role: a2a.MessageRoleUser, Parts: p} }
}

func onCard(f func(*transport.Card)) func(*transport.Event) {
	return func(e *transport.Event) { f(e.Payload.(*transport.Card)) }
}

var invalidCases = []testCase{
	{name: "invalid events are refused", run: func(e *env) {
		inbox, live, cards := e.desk(e.dial(), worker, nil), e.desk(e.dial(), transport.Live("", "c1"), nil), e.desk(e.dial(), transport.Cards(""), nil)
		cards.retained()
		for _, c := range invalidEvents {
			ev := e.message(c.topic, "c1", c.name)
			if c.topic.Kind == transport.KindCards {
				ev = e.card("", "a", "1", 0)
			}
			c.spoil(ev)
			err := e.tr.Publish(context.Background(), c.topic, ev)
			if !errors.Is(err, transport.ErrInvalid) {
				e.Errorf("%s: Publish = %v, want ErrInvalid", c.name, err)
			} else if got := errors.Is(err, transport.ErrTooLarge); got != c.large {
				e.Errorf("%s: Publish = %v; ErrTooLarge is %v, want %v", c.name, err, got, c.large)
			}
		}
		// None of them was stored, and the next event is accepted.
		e.say(worker, "c1", "next")
		inbox.take("next")
		e.say(transport.Live("", "c1"), "c1", "next")
		live.take("next")
		e.announce("", "ok", "1", 0)
		cards.change("ok/1")
		e.desk(e.dial(), transport.Cards(""), nil).retained("ok/1")
	}},
	{name: "invalid topics are refused", run: func(e *env) {
		for _, t := range []transport.Topic{
			{},
			{Kind: "shelf", ID: "x"},
			transport.Inbox("", ""), transport.Live("", ""), transport.Inbox("", "a b"),
			transport.Inbox("a b", "x"), transport.Cards("a\nb"),
		} {
			e.wantIs(errOf(e.tr.Subscribe(context.Background(), t, nil)), transport.ErrInvalid, "Subscribe(%+v)", t)
		}
	}},
	{name: "invalid id may be used again", run: func(e *env) {
		// A refused event does not count as published.
		ev := e.message(worker, "c1", "good")
		bad := *ev
		bad.Payload = nil
		if err := e.tr.Publish(context.Background(), worker, &bad); err == nil {
			e.Fatal("an event without payload was taken")
		}
		e.publish(e.tr, worker, ev)
		e.desk(e.dial(), worker, nil).take("good")
	}},
}

func onTold(f func(*transport.AgentEvent)) func(*transport.Event) {
	return func(e *transport.Event) {
		told := &transport.AgentEvent{Kind: "registered", AgentID: "a"}
		f(told)
		e.From, e.Payload = transport.Cortex, told
	}
}
