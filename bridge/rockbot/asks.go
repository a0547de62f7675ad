package rockbot

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/locks"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// asks are the tasks of callers. They are safe for concurrent use.
type asks struct {
	b     *bridge
	notes storage.Notes

	changing locks.Locks[string] // of notes, by key

	mu   sync.Mutex
	open map[string]*ask // without an answer, by the keys of their notes
	wg   sync.WaitGroup
}

// request takes a caller's task. It is noted and stored as a message to Cortex before it is acknowledged.
func (as *asks) request(ctx context.Context, d *amqp.Delivery, f *face) {
	came := time.Now()
	if !isType(d, typeRequest) {
		as.refuse(d, "it is no task: its type is "+shorten.Line(d.Type, 100))
		return
	}
	r := &request{}
	if err := read(d.Body, r, "taskId", "skill", "message"); err != nil {
		as.refuse(d, err.Error())
		return
	}
	q, err := as.askOf(d, r, f)
	if err != nil {
		as.refuse(d, err.Error())
		return
	}
	q.came = came
	free, err := as.changing.Lock(ctx, q.key())
	if err != nil {
		return // RabbitMQ keeps it
	}
	defer free()
	is, err := as.find(ctx, q.key())
	if is != nil {
		is.came = came
	}
	switch {
	case err != nil:
		as.b.again(ctx, d, err)
		return
	case is == nil:
	case is.knows(keyOf(d)) || !is.continues(r):
		as.repeat(ctx, d, is, r)
		return
	case len(is.Rounds) >= maxRounds:
		as.end(ctx, d, is, fmt.Sprintf("the task has %d rounds: no more are allowed", maxRounds))
		return
	default:
		reply := round{Key: q.Rounds[0].Key, Turn: space.ID("message", f.name, q.Source, q.Task, q.Rounds[0].Key)}
		next := *is
		next.Rounds = append(slices.Clone(is.Rounds), reply)
		next.Asked, next.Answered, next.ReplyTo, next.Correlation, next.came, next.sent = false, false, q.ReplyTo, q.Correlation, came, false
		q = &next
	}
	if f.agent != "" && len(q.Rounds) == 1 {
		if why := as.unfit(f, r, q); why != "" {
			as.end(ctx, d, q, why)
			return
		}
	}
	if !as.admit(q) {
		as.later(ctx, d, q, "too many tasks wait for their answers: send it again later")
		return
	}
	as.begin(ctx, d, q, r)
}

// unfit returns why an agent cannot do what it is asked for; "" if it can.
func (as *asks) unfit(f *face, r *request, q *ask) string {
	as.b.faces.mu.Lock()
	is := f.is
	as.b.faces.mu.Unlock()
	if is == nil {
		return ""
	}
	id, err := skillCalled(is, r.Skill)
	if err != nil {
		return err.Error()
	}
	q.Skill = id
	return ""
}

// refuse refuses a message that cannot be worked on: RabbitMQ puts it to the dead letters, and whoever has sent it is told.
func (as *asks) refuse(d *amqp.Delivery, why string) {
	as.b.at.Logger.Info("a message of RockBot is refused", "source", shorten.Line(header(d, "rb-source"), maxName), "queue", d.RoutingKey, "err", shorten.Line(why, 300))
	if topic, err := replyTopic(d.ReplyTo); err == nil && d.ReplyTo != "" && len(d.CorrelationId) <= maxKey {
		_ = rest.For(as.b.ctx, as.b.times.soonest)
		as.b.line.tell(&letter{
			topic: topic, kind: typeError, correlation: d.CorrelationId, source: as.sourceOf(d),
			body: &failure{TaskID: d.CorrelationId, Code: codeInvalidRequest, Message: shorten.Line(why, 500)},
		})
	}
	_ = d.Reject(false)
}

// sourceOf returns as whom a message is answered.
func (as *asks) sourceOf(d *amqp.Delivery) string {
	for _, topic := range []string{cancelTopic, taskTopic} {
		if name, ok := strings.CutPrefix(d.RoutingKey, topic); ok {
			return name
		}
	}
	return as.b.o.name
}

// end answers a task without having done anything, and acknowledges it.
func (as *asks) end(ctx context.Context, d *amqp.Delivery, q *ask, why string) {
	if as.answer(ctx, q, &result{TaskID: q.Task, ContextID: q.contextID(), State: failed, Message: say("agent", why)}, typeResult, 1) == nil {
		_ = d.Ack(false)
	}
}

// admit reports whether there is room for a task. A caller has at most three times as many as are free, so that there is room for others.
func (as *asks) admit(q *ask) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	theirs := 0
	for _, is := range as.open {
		if is.Source == q.Source {
			theirs++
		}
	}
	if len(as.open) >= maxAsks || theirs >= maxOwnAsks || kit.Sated(theirs, len(as.open), maxAsks) {
		return false
	}
	as.open[q.key()] = q
	return true
}

func (as *asks) leave(q *ask) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.open[q.key()] == q {
		delete(as.open, q.key())
	}
}

// begin notes a task, sends it to Cortex, acknowledges it, and waits for the answer.
func (as *asks) begin(ctx context.Context, d *amqp.Delivery, q *ask, r *request) {
	q.At = as.b.now()
	err := as.store(ctx, q)
	if err == nil {
		asking, m := as.message(d, q, r)
		stored, once := make(chan error, 1), sync.Once{}
		tell := func(err error) (first bool) {
			once.Do(func() {
				first = true
				stored <- err
			})
			return first
		}
		asking.OnSent = func(*transport.Event) {
			as.took(q)
			tell(nil)
		}
		events := func(ctx context.Context) iter.Seq2[*transport.Event, error] { return asking.Follow(ctx, m) } // so that nothing is missed
		as.wg.Go(func() { as.run(q, events, tell) })
		select {
		case err = <-stored:
		case <-ctx.Done():
			return // RabbitMQ keeps it, and gives it again
		}
	}
	if err != nil {
		as.leave(q)
		as.unsent(ctx, d, q, err)
		return
	}
	_ = d.Ack(false)
}

// took takes note that Cortex has the newest message of a task.
func (as *asks) took(q *ask) {
	as.mu.Lock()
	defer as.mu.Unlock()
	q.sent = true
}

// unsent handles a message that Cortex has not taken. Given back to RabbitMQ it comes again before those of others, so that only what comes while the store is away is.
func (as *asks) unsent(ctx context.Context, d *amqp.Delivery, q *ask, err error) {
	switch {
	case errors.Is(err, transport.ErrInvalid) || errors.Is(err, transport.ErrTooLarge):
		as.leave(q)
		q.Answered = true
		_ = as.store(ctx, q)
		as.refuse(d, err.Error())
	case errors.Is(err, transport.ErrFull):
		as.leave(q)
		if no := as.undo(ctx, q); no != nil {
			as.b.again(ctx, d, no)
			return
		}
		as.later(ctx, d, q, busy(err))
	default:
		as.b.again(ctx, d, err)
	}
}

// busy is the text for a caller of whom Cortex takes no more now.
func busy(err error) string {
	return "Cortex takes no more now: send it again later (" + shorten.Line(err.Error(), 500) + ")"
}

// later answers a message that may be sent again, and acknowledges it.
func (as *asks) later(ctx context.Context, d *amqp.Delivery, q *ask, why string) {
	no := &failure{TaskID: q.Task, ContextID: q.contextID(), Code: codeExecution, Message: why, IsRetryable: true}
	if as.answer(ctx, q, no, typeError, 1) == nil {
		_ = d.Ack(false)
	}
}

// message returns the newest round of a task as a message to Cortex, and who says it. Sent again, it is the same message.
func (as *asks) message(d *amqp.Delivery, q *ask, r *request) (*client.Client, *client.Message) {
	turn := q.turn()
	m := &client.Message{
		ContextID: turn.ContextID, ID: turn.MessageID, From: turn.From, Parts: partsOf(r.Message.text(), data(r.Message.Parts)),
		Metadata: map[string]any{transport.MetaOwn: true},
	}
	if len(q.Rounds) > 1 {
		last := turn
		last.MessageID = q.Rounds[len(q.Rounds)-2].Turn
		m.ReplyTo = as.b.at.Client.ID(last)
	} else if q.Agent != "" {
		m.To = &transport.Direct{Agent: q.Agent, Skill: q.Skill}
	}
	asking := *as.b.at.Client
	said := transport.Event{Traceparent: header(d, "rb-traceparent"), Tracestate: header(d, "rb-tracestate")}
	parent, state := said.Trace()                                                            // if it is one
	asking.OnSend = func(e *transport.Event) { e.Traceparent, e.Tracestate = parent, state } // d would be kept until the answer comes
	return &asking, m
}

// repeat takes a task that has come before: it is not done again, and an answer that was given is given again.
func (as *asks) repeat(ctx context.Context, d *amqp.Delivery, q *ask, r *request) {
	if !q.Answered {
		as.mu.Lock()
		open, sent := as.open[q.key()] != nil, q.sent
		if !open {
			as.open[q.key()] = q
		}
		as.mu.Unlock()
		if !sent && q.Rounds[len(q.Rounds)-1].Key == keyOf(d) { // Cortex may have been stopped before the message was sent
			asking, m := as.message(d, q, r)
			if _, err := asking.Send(ctx, m); err != nil {
				if !open {
					as.leave(q)
				}
				as.unsent(ctx, d, q, err)
				return
			}
			as.took(q)
		}
		_ = d.Ack(false)
		if !open {
			as.wg.Go(func() { as.run(q, as.watch(q), nil) })
		}
		return
	}
	// RabbitMQ keeps the message until the answer was given: who repeats a task faster than that has it wait there.
	said, ok, err := as.b.at.Client.Log(ctx, q.turn())
	if err == nil && ok {
		var is *result
		if is, _, err = as.resultOf(ctx, q, said); err == nil {
			err = as.answer(ctx, q, is, typeResult, 1)
		}
	}
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, transport.ErrUnavailable)):
		as.b.again(ctx, d, err)
		return
	case err != nil: // its conversation is damaged
		as.b.at.Logger.Warn("the answer to a task of RockBot cannot be sent again", "source", q.Source, "context_id", q.Context, "err", err)
	}
	_ = d.Ack(false)
}

// resume waits for the answers to the tasks that an earlier process has accepted.
func (as *asks) resume(ctx context.Context) error {
	for n, err := range as.notes.Notes(ctx, as.b.at.Tenant, storage.NoteReply) {
		if err != nil {
			return fmt.Errorf("read the notes of tasks: %w", err)
		}
		q := readAsk(&n)
		if q == nil && strings.HasPrefix(n.Key, ownContext) {
			as.b.unread(storage.NoteReply, n.Key, "its caller gets no answer unless it sends the task again")
		}
		if q != nil && !q.Answered {
			q.came = time.Now()
			as.mu.Lock()
			as.open[q.key()] = q
			as.mu.Unlock()
			as.wg.Go(func() { as.run(q, as.watch(q), nil) })
		}
	}
	return nil
}
