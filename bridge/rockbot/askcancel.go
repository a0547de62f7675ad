package rockbot

import (
	"cmp"
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// cancel takes a caller's cancellation of a task.
func (as *asks) cancel(ctx context.Context, d *amqp.Delivery) {
	if !isType(d, typeCancel) {
		as.refuse(d, "it is no cancellation: its type is "+shorten.Line(d.Type, 100))
		return
	}
	c := &cancelRequest{}
	if err := read(d.Body, c, "taskId"); err != nil {
		as.refuse(d, err.Error())
		return
	}
	reply, err := replyTopic(d.ReplyTo)
	if err != nil {
		as.refuse(d, err.Error())
		return
	}
	source := cmp.Or(shorten.To(kit.Valid(header(d, "rb-source")), maxName), unknownSource)
	name := as.sourceOf(d)
	key, err := as.wanted(ctx, source, name, c)
	if err != nil {
		as.b.again(ctx, d, err)
		return
	}
	free, err := as.changing.Lock(ctx, key)
	if err != nil {
		return // RabbitMQ keeps it
	}
	defer free()
	q, err := as.find(ctx, key)
	if err != nil {
		as.b.again(ctx, d, err)
		return
	}
	no := &failure{TaskID: c.TaskID, ContextID: c.ContextID}
	switch {
	case q == nil:
		no.Code, no.Message = codeNotFound, "there is no such task of yours"
	case q.Answered && !q.Asked:
		no.Code, no.Message = codeNotCancelable, "the task has its answer"
	default:
		asking := *as.b.at.Client
		asking.User = sender(source)
		x := transport.Cancel{Turn: asking.ID(q.turn()), Reason: "the caller has canceled it"}
		if q.Asked {
			x = transport.Cancel{Reason: x.Reason} // its question is what is open
		}
		err := asking.Cancel(ctx, q.Context, x)
		if errors.Is(err, transport.ErrFull) { // given back, it would come again before those of others
			no.Code, no.Message, no.IsRetryable = codeNotCancelable, busy(err), true
			break
		}
		if err != nil {
			as.b.again(ctx, d, err)
			return
		}
		if q.Asked { // no turn is open that would be answered
			q.Asked = false
			_ = as.store(ctx, q)
			_ = as.answer(ctx, q, &result{TaskID: q.Task, ContextID: q.contextID(), State: canceled, Message: say("agent", conversation.AnswerCanceled)}, typeResult, 1)
		}
		_ = d.Ack(false)
		return
	}
	as.b.line.tell(&letter{topic: reply, kind: typeError, correlation: cmp.Or(d.CorrelationId, c.TaskID), source: name, body: no})
	_ = d.Ack(false)
}

// wanted returns the key of the task that a caller names.
func (as *asks) wanted(ctx context.Context, source, name string, c *cancelRequest) (string, error) {
	as.mu.Lock()
	for key, q := range as.open {
		if q.Source == source && q.Task == c.TaskID && q.As == name {
			as.mu.Unlock()
			return key, nil
		}
	}
	as.mu.Unlock()
	alone := askKey(contextOf(name, source, "task "+c.TaskID), name, source, c.TaskID)
	if deref(c.ContextID) == "" {
		return alone, nil
	}
	key := askKey(contextOf(name, source, *c.ContextID), name, source, c.TaskID)
	if q, err := as.find(ctx, key); err != nil || q != nil {
		return key, err
	}
	return alone, nil
}
