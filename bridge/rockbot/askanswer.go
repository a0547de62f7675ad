package rockbot

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// turn yields the events of a turn.
type turn func(ctx context.Context) iter.Seq2[*transport.Event, error]

// watch returns what yields the events of the newest round of a task, which has begun.
func (as *asks) watch(q *ask) turn {
	t := q.turn()
	return func(ctx context.Context) iter.Seq2[*transport.Event, error] { return as.b.at.Client.Watch(ctx, t) }
}

// run waits for the answer to a task, tells what goes on meanwhile, and passes the answer on. If stored is not nil, it is told why
// the message could not be sent, and returns false if it was.
func (as *asks) run(q *ask, events turn, stored func(error) bool) {
	defer as.leave(q)
	ctx, end := context.WithTimeout(as.b.ctx, answeredFor)
	defer end()
	as.status(q, nil)
	said := as.follow(ctx, q, events, stored)
	if said == nil {
		return
	}
	free, err := as.changing.Lock(ctx, q.key())
	if err != nil {
		return
	}
	defer free()
	as.mu.Lock()
	newest := as.open[q.key()] == q
	as.mu.Unlock()
	if newest { // else the caller has replied already, to an answer before a restart
		as.give(ctx, q, said)
	}
}

// give gives a caller the answer to a task, and notes that. A question is noted before, since its reply may come at once. The task is held.
func (as *asks) give(ctx context.Context, q *ask, said *a2a.Message) {
	r, asked, err := as.resultOf(ctx, q, said)
	if err == nil && asked {
		q.Asked = true
		err = as.store(ctx, q)
	}
	if err == nil {
		err = as.answer(ctx, q, r, typeResult, maxRefused)
	}
	if err == nil {
		q.Answered, q.At = true, as.b.now()
		err = as.store(ctx, q)
	}
	if err != nil && as.b.ctx.Err() == nil {
		as.b.at.Logger.Warn("a task of RockBot may be answered again, or after a restart", "source", q.Source, "context_id", q.Context, "err", err)
	}
}

// follow returns the answer to a turn; nil if there is none.
func (as *asks) follow(ctx context.Context, q *ask, events turn, stored func(error) bool) *a2a.Message {
	var told time.Time
	for {
		for e, err := range events(ctx) {
			if err != nil {
				if stored != nil && stored(err) {
					return nil
				}
				break
			}
			switch p := e.Payload.(type) {
			case *a2a.Message:
				return p
			case *a2a.TaskStatusUpdateEvent:
				if p.Status.Message == nil || e.From == transport.Cortex || time.Since(told) < as.b.times.progress {
					continue
				}
				told = time.Now()
				as.status(q, say("agent", shorten.Line(transport.Text(p.Status.Message.Parts), 1000)))
			}
		}
		if rest.For(ctx, as.b.times.pause) != nil {
			return nil
		}
		events = as.watch(q)
	}
}

// status tells everybody that a task is worked on.
func (as *asks) status(q *ask, m *message) {
	as.b.line.tell(&letter{
		topic: statusTopic, kind: typeStatus, correlation: q.Correlation, source: q.As,
		body: &statusUpdate{TaskID: q.Task, ContextID: nullable(q.Theirs), State: working, Message: m},
	})
}

// resultOf returns what a caller gets for Cortex's answer, and whether that is a question.
func (as *asks) resultOf(ctx context.Context, q *ask, said *a2a.Message) (r *result, asked bool, err error) {
	text := shorten.Marked(transport.Text(said.Parts), maxSaid, "…")
	r = &result{TaskID: q.Task, ContextID: nullable(q.Theirs), State: completed, Message: say("agent", text)}
	if is, _ := said.Metadata[transport.MetaFailed].(bool); is {
		if r.State = failed; text == conversation.AnswerCanceled {
			r.State = canceled
		}
		return r, false, nil
	}
	at := as.b.at
	conv, err := storage.Load(ctx, at.Store, at.Tenant, q.Context)
	if err != nil {
		return nil, false, err
	}
	if conv.WaitsFor(at.Client.ID(q.turn())) != nil {
		if !as.b.o.isFirst(q.Source) { // for the first generation, every result is the last
			r.State, r.ContextID = inputRequired, q.contextID()
		}
		return r, true, nil
	}
	if q.Agent != "" {
		values, err := dataOf(ctx, at, q.turn())
		if err != nil {
			return nil, false, err
		}
		for _, v := range values {
			r.Message.Parts = append(r.Message.Parts, part{Kind: "data", Data: new(string(v)), MimeType: new("application/json")})
		}
	}
	return r, false, nil
}

// maxRefused is how often a caller's queue may refuse an answer. Where others wait meanwhile, once is enough.
const maxRefused = 10

// answer publishes an answer. A caller whose queue is not there has never been: it is not waited for. Nor is one for long whose queue refuses the answer: its
// task would be one of those that may be open, and callers choose their queues.
func (as *asks) answer(ctx context.Context, q *ask, body any, kind string, refusals int) error {
	// A caller of the first generation notes a task only after it has sent it.
	if err := rest.For(ctx, time.Until(q.came.Add(as.b.times.soonest))); err != nil {
		return err
	}
	err := as.b.line.send(ctx, &letter{topic: q.ReplyTo, kind: kind, correlation: q.Correlation, source: q.As, body: body, refusals: refusals})
	switch {
	case errors.Is(err, errUnrouted):
		as.b.at.Logger.Info("an answer is not delivered: RabbitMQ has no queue for it", "source", q.Source, "topic", q.ReplyTo, "context_id", q.Context)
		return nil
	case errors.Is(err, errRefused):
		as.b.at.Logger.Warn("an answer is not delivered: the queue of the caller refuses it", "source", q.Source, "topic", q.ReplyTo, "context_id", q.Context)
		return nil
	}
	return err
}
