package rockbot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// errSkip is the error of an answer that is for nothing.
var errSkip = errors.New("it answers nothing that was asked")

// partsOf returns a text and values as Cortex has them.
func partsOf(text string, values []json.RawMessage) (parts a2a.ContentParts) {
	if text != "" {
		parts = append(parts, a2a.NewTextPart(text))
	}
	for _, v := range values {
		parts = append(parts, a2a.NewDataPart(v))
	}
	return parts
}

// readOutcome reads what an agent has answered, and for which task.
func readOutcome(d *amqp.Delivery) (id string, o *outcome, err error) {
	switch {
	case isType(d, typeResult):
		r := &result{}
		if err := read(d.Body, r, "taskId", "state"); err != nil {
			return d.CorrelationId, nil, err
		}
		id, o = r.TaskID, &outcome{State: r.State, Text: r.Message.text(), Artifacts: r.Artifacts, Theirs: deref(r.ContextID)}
		if r.Message != nil {
			o.Data = data(r.Message.Parts)
		}
	case isType(d, typeError):
		f := &failure{}
		if err := read(d.Body, f, "taskId", "code", "message"); err != nil {
			return d.CorrelationId, nil, err
		}
		if f.Code == codeNotCancelable {
			return "", nil, errSkip // the cancellation is settled in Cortex
		}
		id, o = f.TaskID, &outcome{State: failed, Text: shorten.Marked(f.Message, maxReason, "…")}
		o.Text = cmp.Or(o.Text, shorten.Line(f.Code, 100))
	default:
		return d.CorrelationId, nil, errors.New("it is of a type that answers nothing")
	}
	if d.CorrelationId != "" {
		id = d.CorrelationId
	}
	o.ID = shorten.To(d.MessageId, 100)
	return id, o, nil
}

// answered takes an answer to a task: it is noted, and then acknowledged. An answer that cannot be read fails its task, since no other one will come.
func (b *bridge) answered(ctx context.Context, s *session, d *amqp.Delivery) {
	id, o, err := readOutcome(d)
	if errors.Is(err, errSkip) {
		_ = d.Ack(false)
		return
	}
	if task := b.book.of(id); task != nil { // answers to one task count in their order
		b.noteAnswer(ctx, d, task, o, err)
		return
	}
	s.wg.Go(func() {
		switch task, no := b.book.find(ctx, id); {
		case no != nil:
			b.again(ctx, d, no)
		case task == nil:
			b.stray.Do(func() { // whose task it was may wait for it elsewhere
				b.at.Logger.Warn("an answer to no task of this Cortex is dropped, and others may be that are not logged: if another Cortex has the same name at this RabbitMQ, choose another with --rockbot-name",
					"name", b.o.name, "source", shorten.Line(header(d, "rb-source"), maxName), "correlation_id", shorten.Line(id, 100))
			})
			_ = d.Ack(false)
		default:
			b.noteAnswer(ctx, d, task, o, err)
		}
	})
}

// noteAnswer notes the answer to a task, or why it cannot be read.
func (b *bridge) noteAnswer(ctx context.Context, d *amqp.Delivery, s *sent, o *outcome, err error) {
	if source := header(d, "rb-source"); source != s.Agent {
		b.at.Logger.Warn("an answer says that it comes from somebody else than the agent that was asked", "agent", s.Agent, "source", shorten.Line(source, maxName), "task_id", s.Task)
		if b.o.strict {
			_ = d.Ack(false)
			return
		}
	}
	if err != nil {
		o = &outcome{State: failed, Text: "The agent's answer cannot be read: " + shorten.Line(err.Error(), maxReason)}
	}
	if _, err := b.book.answer(ctx, s, o); err != nil && !errors.Is(err, errForgotten) {
		b.again(ctx, d, err)
		return
	}
	_ = d.Ack(false)
}

// again gives a message back that could not be noted, a while later.
func (b *bridge) again(ctx context.Context, d *amqp.Delivery, why error) {
	if ctx.Err() == nil {
		b.at.Logger.Warn("a message of RockBot cannot be stored: it is tried again", "err", why)
	}
	_ = rest.For(ctx, b.times.pause)
	_ = d.Nack(false, true)
}

// progressed takes what an agent says while it works. Everybody hears that of everybody.
func (b *bridge) progressed(d *amqp.Delivery) {
	if !isType(d, typeStatus) || b.book.of(d.CorrelationId) == nil {
		return
	}
	u := &statusUpdate{}
	if err := read(d.Body, u, "taskId", "state"); err != nil || u.State != submitted && u.State != working {
		return
	}
	b.book.progress(d.CorrelationId, shorten.Line(u.Message.text(), maxReason))
}
