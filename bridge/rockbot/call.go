package rockbot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxReason bounds the text of a failure, in bytes.
const maxReason = 4 << 10

// maxUnrouted is how often a task is published that no queue takes: an agent may announce itself before its queue is there.
const maxUnrouted = 3

// Execute implements [agents.Executor]: the agent does the task.
func (g *guest) Execute(ctx context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		o, err := g.do(ctx, t)
		if err != nil {
			yield(nil, err)
			return
		}
		is, err := statusOf(t, o)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: *is}, nil)
	}
}

// Canceled implements [agents.Canceler]: a task with a question is canceled that waits for its reply.
func (g *guest) Canceled(_, contextID string, id a2a.TaskID) {
	for _, s := range g.b.book.asking(g.name) {
		if s.Context == contextID && s.Task == id {
			g.b.line.tell(g.cancellation(s))
		}
	}
}

// do gives a task to the agent unless it has it, and returns its answer. It is the same for the agent when Cortex was restarted.
func (g *guest) do(ctx context.Context, t *agents.Task) (*outcome, error) {
	k := g.b.book
	kind, err := skillOf(g.shown(), transport.MetaString(t.Message, transport.MetaTaskType))
	if err != nil {
		return nil, agents.Rejected(err)
	}
	s, err := k.begin(ctx, t, g.name)
	if err != nil {
		return nil, err
	}
	defer g.b.guests.wake() // it may have left, and this was its last task
	defer k.leave(s)
	came, noted, confirmed, theirs := k.state(s)
	if noted == nil && !confirmed {
		if g.away() {
			k.drop(context.WithoutCancel(ctx), s)
			return nil, agents.Rejected(errors.New("the agent has left"))
		}
		if err := g.give(ctx, s, g.request(t, s, kind, theirs)); err != nil {
			return nil, err
		}
	}
	look := time.NewTicker(g.b.times.look)
	defer look.Stop()
	for {
		select {
		case <-came:
			_, o, _, _ := k.state(s)
			return o, nil
		case <-look.C:
			if err := k.look(ctx, s); err != nil && ctx.Err() == nil {
				g.b.at.Logger.Warn("the note of a task cannot be read", "task_id", t.ID, "err", err)
			}
		case <-ctx.Done():
			return nil, g.stop(ctx, s)
		}
	}
}

// state returns what is known of a task.
func (k *book) state(s *sent) (came <-chan struct{}, o *outcome, confirmed bool, theirs string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.came, s.Result, s.Confirmed, s.Theirs
}

// give publishes a task until RabbitMQ has it.
func (g *guest) give(ctx context.Context, s *sent, m *letter) error {
	for n := 1; ; n++ {
		err := g.ensure(ctx)
		if err == nil {
			err = g.b.line.send(ctx, m)
		}
		switch {
		case err == nil:
			return g.b.book.confirm(ctx, s)
		case ctx.Err() != nil:
			return g.stop(ctx, s)
		case !errors.Is(err, errUnrouted):
			return err
		case n == maxUnrouted:
			g.b.book.drop(ctx, s)
			return fmt.Errorf("there is no such agent: RabbitMQ has no queue for the tasks of %s", g.name)
		}
		if rest.For(ctx, g.b.times.unrouted) != nil {
			return g.stop(ctx, s)
		}
	}
}

// ensure makes the queue of an agent that gets work while it is away, unless it is there.
func (g *guest) ensure(ctx context.Context) error {
	g.mu.Lock()
	pinned := g.pinned
	g.mu.Unlock()
	for pinned {
		s, err := g.b.line.wait(ctx)
		if err != nil {
			return err
		}
		ch, err := s.conn.Channel()
		if err == nil {
			_, err = s.declare(ch, taskQueueOf(g.name))
			_ = ch.Close() // RabbitMQ has closed it if it did not like the queue
		}
		if err == nil {
			break
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
			return fmt.Errorf("the queue of %s cannot be made: %w", g.name, err)
		}
	}
	return nil
}

// taskQueueOf returns the queue of an agent's tasks, as RockBot declares it.
func taskQueueOf(name string) *queue {
	key := taskTopic + name
	return &queue{
		name: taskQueue(name), keys: []string{key}, foreign: true, prefetch: inPrefetch,
		args: amqp.Table{"x-dead-letter-exchange": deadExchange, "x-dead-letter-routing-key": key},
	}
}

// stop ends a task that was canceled, or whose time is over: the agent is told, and most do not heed it. It returns the cause. When Cortex stops, the task
// goes on.
func (g *guest) stop(ctx context.Context, s *sent) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, agents.ErrStopping) {
		g.b.line.tell(g.cancellation(s))
	}
	return cause
}

func (g *guest) cancellation(s *sent) *letter {
	return g.letter(typeCancel, cancelTopic+g.name, s, &cancelRequest{s.ID, nullable(s.Theirs)})
}

func (g *guest) letter(kind, topic string, s *sent, body any) *letter {
	return &letter{topic: topic, kind: kind, correlation: s.ID, replyTo: g.b.replyTo(), source: g.b.o.name, body: body}
}

// request returns a task as agents want it.
func (g *guest) request(t *agents.Task, s *sent, kind, theirs string) *letter {
	text := t.Text()
	for i, p := range transport.FilesOf(t.Message.Parts) { // RockBot has none
		name, kind, _, _ := transport.FileOf(p)
		text += fmt.Sprintf("\n[file %s]", transport.FileName(name, kind, i+1))
	}
	text = strings.TrimPrefix(text, "\n")
	r := &request{TaskID: s.ID, ContextID: nullable(theirs), Skill: kind}
	var input string
	if value := t.Input(); value != nil {
		if b, err := transport.EncodeValue(value); err == nil {
			input = string(b)
		}
	}
	switch {
	case input == "":
		r.Message = say("user", text)
	case g.isSecond():
		r.Message = say("user", cmp.Or(text, input))
		r.Message.Parts = append(r.Message.Parts, part{Kind: "data", Data: &input, MimeType: new("application/json")})
	default:
		r.Message = say("user", strings.TrimPrefix(text+"\n"+input, "\n"))
	}
	m := g.letter(typeRequest, taskTopic+g.name, s, r)
	m.trace = [2]string{t.Traceparent, t.Tracestate}
	return m
}

// nullable returns a text; nil for none.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// statusOf returns how a task has ended by its agent's answer, and adds the outputs to it.
func statusOf(t *agents.Task, o *outcome) (*a2a.TaskStatus, error) {
	for i, a := range o.Artifacts {
		if parts := partsOf(words(a.Parts), data(a.Parts)); len(parts) > 0 {
			e := &a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{
				ID: a2a.ArtifactID(fmt.Sprint("rockbot-", i+1)), Name: cmp.Or(a.Name, fmt.Sprint("artifact ", i+1)), Description: deref(a.Description), Parts: parts,
			}}
			if err := t.Update(e); err != nil {
				return nil, fmt.Errorf("what the agent has made cannot be taken: %w", err)
			}
		}
	}
	is := &a2a.TaskStatus{}
	text := o.Text
	switch o.State {
	case completed:
		is.State = a2a.TaskStateCompleted
	case failed:
		is.State, text = a2a.TaskStateFailed, cmp.Or(text, "The agent gave no reason.")
	case canceled:
		is.State, text = a2a.TaskStateCanceled, cmp.Or(text, "The agent gave no reason.")
	case inputRequired:
		is.State, text = a2a.TaskStateInputRequired, cmp.Or(text, "The agent wants to know more, and does not say what.")
	default:
		is.State = a2a.TaskStateFailed
		text = strings.TrimSpace("The agent ended the task in a state that is no end. " + text)
	}
	if parts := partsOf(text, o.Data); len(parts) > 0 {
		is.Message = &a2a.Message{Role: a2a.MessageRoleAgent, Parts: parts}
	}
	return is, nil
}
