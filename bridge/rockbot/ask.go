package rockbot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the tasks of callers.
const (
	maxAsks    = 1024 // that have no answer yet
	maxOwnAsks = 128  // likewise, of one caller
	maxRounds  = 20   // messages of one task
	maxSaid    = 1 << 20
)

// How long tasks of callers are remembered.
const (
	answeredFor = 24 * time.Hour
	openFor     = 7 * 24 * time.Hour // with a question
	forgetEach  = time.Hour
)

// unknownSource is who asks without a name.
const unknownSource = "unknown"

// ask is a task that a caller has given to an agent of Cortex, or to Cortex itself. The exported fields are its note.
type ask struct {
	Source      string    `json:"source"`
	Task        string    `json:"task"` // the caller's
	Correlation string    `json:"correlation"`
	ReplyTo     string    `json:"reply_to"`
	Theirs      string    `json:"theirs,omitempty"` // context of the caller
	As          string    `json:"as"`               // who was asked
	Agent       string    `json:"agent,omitempty"`
	Skill       string    `json:"skill,omitempty"`
	Context     string    `json:"context"` // conversation of Cortex
	Rounds      []round   `json:"rounds"`
	At          time.Time `json:"at"` // of the newest round, or of its answer
	Answered    bool      `json:"answered,omitempty"`
	Asked       bool      `json:"asked,omitempty"` // the answer was a question

	version conversation.Version
	came    time.Time
}

// round is one message of a caller, and the turn that it began.
type round struct {
	Key  string `json:"key"`  // of the caller's message
	Turn string `json:"turn"` // message of Cortex
}

func askKey(contextID, as, source, task string) string {
	return contextID + "." + space.Hex("ask", as, source, task)
}

func (q *ask) key() string { return askKey(q.Context, q.As, q.Source, q.Task) }

// turn returns the turn of the newest round.
func (q *ask) turn() client.Turn {
	return client.Turn{ContextID: q.Context, From: sender(q.Source), MessageID: q.Rounds[len(q.Rounds)-1].Turn}
}

// given returns the context that the caller is told.
func (q *ask) given() string { return cmp.Or(q.Theirs, q.Context) }

// asks are the tasks of callers. They are safe for concurrent use.
type asks struct {
	b     *bridge
	notes storage.Notes

	mu   sync.Mutex
	open map[string]*ask          // without an answer, by the keys of their notes
	busy map[string]chan struct{} // notes that somebody changes now
	wg   sync.WaitGroup
}

func newAsks(b *bridge, notes storage.Notes) *asks {
	return &asks{b: b, notes: notes, open: map[string]*ask{}, busy: map[string]chan struct{}{}}
}

// hold waits until nobody else changes a note.
func (as *asks) hold(ctx context.Context, key string) (free func(), err error) {
	for {
		as.mu.Lock()
		wait := as.busy[key]
		if wait == nil {
			done := make(chan struct{})
			as.busy[key] = done
			as.mu.Unlock()
			return func() {
				as.mu.Lock()
				delete(as.busy, key)
				as.mu.Unlock()
				close(done)
			}, nil
		}
		as.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// request takes a caller's task. It is noted and stored as a message to Cortex before it is acknowledged.
func (as *asks) request(ctx context.Context, d *amqp.Delivery, f *face) {
	came := time.Now()
	if !isType(d, typeRequest) {
		as.refuse(ctx, d, "it is no task: its type is "+shorten.Line(d.Type, 100))
		return
	}
	r := &request{}
	if err := read(d.Body, r, "taskId", "skill", "message"); err != nil {
		as.refuse(ctx, d, err.Error())
		return
	}
	q, err := as.askOf(d, r, f)
	if err != nil {
		as.refuse(ctx, d, err.Error())
		return
	}
	q.came = came
	free, err := as.hold(ctx, q.key())
	if err != nil {
		return // RabbitMQ keeps it
	}
	defer free()
	is, err := as.find(ctx, q.key())
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
		next.Asked, next.Answered, next.ReplyTo, next.Correlation, next.came = false, false, q.ReplyTo, q.Correlation, came
		q = &next
	}
	if f.agent != "" && len(q.Rounds) == 1 {
		if why := as.unfit(f, r, q); why != "" {
			as.end(ctx, d, q, why)
			return
		}
	}
	if !as.admit(q) {
		as.answer(ctx, q, &failure{TaskID: q.Task, ContextID: q.contextID(), Code: codeExecution, Message: "too many tasks wait for their answers: send it again later", IsRetryable: true}, typeError)
		_ = d.Ack(false)
		return
	}
	as.begin(ctx, d, q, r)
}

// isType reports whether a message is of a type. Upper and lower case do not differ.
func isType(d *amqp.Delivery, kind string) bool { return strings.EqualFold(d.Type, kind) }

// askOf returns the task of a request with its first round.
func (as *asks) askOf(d *amqp.Delivery, r *request, f *face) (*ask, error) {
	reply, err := replyTopic(d.ReplyTo)
	switch {
	case err != nil:
		return nil, err
	case r.TaskID == "" || len(r.TaskID) > maxKey:
		return nil, fmt.Errorf("taskId has %d bytes, want 1 to %d", len(r.TaskID), maxKey)
	case len(deref(r.ContextID)) > maxKey:
		return nil, fmt.Errorf("contextId has %d bytes, at most %d are allowed", len(*r.ContextID), maxKey)
	case r.Message == nil:
		return nil, errors.New("message is null")
	case strings.TrimSpace(r.Message.text()) == "" && len(data(r.Message.Parts)) == 0:
		return nil, errors.New("message says nothing")
	}
	source := cmp.Or(shorten.To(valid(header(d, "rb-source")), maxName), unknownSource)
	q := &ask{
		Source: source, Task: r.TaskID, Correlation: cmp.Or(d.CorrelationId, r.TaskID), ReplyTo: reply, Theirs: deref(r.ContextID), As: f.name, Agent: f.agent,
	}
	q.Context = contextOf(f.name, source, "task "+r.TaskID)
	if q.Theirs == q.Context { // it was given with a question
		q.Theirs = ""
	} else if q.Theirs != "" {
		q.Context = contextOf(f.name, source, q.Theirs)
	}
	q.Rounds = []round{{Key: keyOf(d), Turn: space.ID("message", f.name, source, r.TaskID)}}
	return q, nil
}

// contextOf returns the conversation in Cortex for that of a caller with somebody: nobody else's.
func contextOf(as, source, theirs string) string {
	return "rockbot-" + space.ID("context", as, source, theirs)
}

// replyTopic returns where an answer goes. Other topics than those of responses are refused: who asks could have Cortex say something there.
func replyTopic(topic string) (string, error) {
	switch {
	case topic == "":
		return responseTopic, nil
	case topic != responseTopic && !strings.HasPrefix(topic, responseTopic+".") || strings.ContainsAny(topic, "*#"):
		return "", fmt.Errorf("reply-to is %.100q, and answers go to %s.NAME", topic, responseTopic)
	}
	return topic, nil
}

// knows reports whether a message of the caller has come before.
func (q *ask) knows(key string) bool {
	for _, r := range q.Rounds {
		if r.Key == key {
			return true
		}
	}
	return false
}

// continues reports whether a message is the reply to the question of a task.
func (q *ask) continues(r *request) bool {
	return q.Asked && deref(r.ContextID) != "" && deref(r.ContextID) == q.given()
}

func (q *ask) contextID() *string { return nullable(q.given()) }

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
func (as *asks) refuse(ctx context.Context, d *amqp.Delivery, why string) {
	as.b.at.Logger.Info("a message of RockBot is refused", "source", shorten.Line(header(d, "rb-source"), maxName), "queue", d.RoutingKey, "err", shorten.Line(why, 300))
	if topic, err := replyTopic(d.ReplyTo); err == nil && d.ReplyTo != "" && len(d.CorrelationId) <= maxKey {
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
	if as.answer(ctx, q, &result{TaskID: q.Task, ContextID: q.contextID(), State: failed, Message: say("agent", why)}, typeResult) == nil {
		_ = d.Ack(false)
	}
}

// admit reports whether there is room for a task.
func (as *asks) admit(q *ask) bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	theirs := 0
	for _, is := range as.open {
		if is.Source == q.Source {
			theirs++
		}
	}
	if len(as.open) >= maxAsks || theirs >= maxOwnAsks {
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

// find returns a task that is known, or nil.
func (as *asks) find(ctx context.Context, key string) (*ask, error) {
	as.mu.Lock()
	q := as.open[key]
	as.mu.Unlock()
	if q != nil {
		return q, nil
	}
	n, err := as.notes.Note(ctx, as.b.at.Tenant, storage.NoteReply, key)
	if err != nil || n.Version == 0 {
		return nil, err
	}
	return readAsk(&n), nil
}

// readAsk reads a note; nil if it is of another bridge, or another version.
func readAsk(n *storage.Note) *ask {
	q := &ask{version: n.Version}
	if json.Unmarshal(n.Value, q) != nil || len(q.Rounds) == 0 || q.Task == "" || q.key() != n.Key {
		return nil
	}
	return q
}

// store writes a task's note.
func (as *asks) store(ctx context.Context, q *ask) error {
	for try := 0; ; try++ {
		value, err := json.Marshal(q)
		if err != nil {
			return err
		}
		v, err := as.notes.PutNote(ctx, as.b.at.Tenant, storage.NoteReply, storage.Note{Key: q.key(), Value: value, Version: q.version})
		if err == nil {
			q.version = v
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) || try == 3 {
			return fmt.Errorf("note the task: %w", err)
		}
		n, err := as.notes.Note(ctx, as.b.at.Tenant, storage.NoteReply, q.key())
		if err != nil {
			return fmt.Errorf("note the task: %w", err)
		}
		q.version = n.Version
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
		asking.OnSent = func(*transport.Event) { tell(nil) }
		events := func(ctx context.Context) iter.Seq2[*transport.Event, error] { return asking.Follow(ctx, m) } // so that nothing is missed
		as.wg.Go(func() { as.run(q, events, tell) })
		select {
		case err = <-stored:
		case <-ctx.Done():
			return // RabbitMQ keeps it, and gives it again
		}
	}
	switch {
	case err == nil:
		_ = d.Ack(false)
	case errors.Is(err, transport.ErrInvalid) || errors.Is(err, transport.ErrTooLarge):
		as.leave(q)
		q.Answered = true
		_ = as.store(ctx, q)
		as.refuse(ctx, d, err.Error())
	default:
		as.leave(q)
		as.b.again(ctx, d, err)
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
	asking.OnSend = func(e *transport.Event) {
		e.Traceparent, e.Tracestate = header(d, "rb-traceparent"), header(d, "rb-tracestate")
		e.Traceparent, e.Tracestate = e.Trace() // if it is one
	}
	return &asking, m
}

// repeat takes a task that has come before: it is not done again, and an answer that was given is given again.
func (as *asks) repeat(ctx context.Context, d *amqp.Delivery, q *ask, r *request) {
	if !q.Answered {
		as.mu.Lock()
		open := as.open[q.key()] != nil
		if !open {
			as.open[q.key()] = q
		}
		as.mu.Unlock()
		if q.Rounds[len(q.Rounds)-1].Key == keyOf(d) { // Cortex may have been stopped before the message was sent
			asking, m := as.message(d, q, r)
			if _, err := asking.Send(ctx, m); err != nil {
				if !open {
					as.leave(q)
				}
				as.b.again(ctx, d, err)
				return
			}
		}
		_ = d.Ack(false)
		if !open {
			as.wg.Go(func() { as.run(q, as.watch(q), nil) })
		}
		return
	}
	_ = d.Ack(false)
	as.wg.Go(func() {
		said, ok, err := as.b.at.Client.Log(as.b.ctx, q.turn())
		if err == nil && ok {
			if r, _, err := as.resultOf(as.b.ctx, q, said); err == nil {
				_ = as.answer(as.b.ctx, q, r, typeResult)
			}
		}
	})
}

// keyOf returns what tells a message of a caller from others: its id, or its digest.
func keyOf(d *amqp.Delivery) string {
	if d.MessageId != "" {
		return shorten.To(d.MessageId, maxKey)
	}
	sum := sha256.Sum256(d.Body)
	return hex.EncodeToString(sum[:])
}

// resume waits for the answers to the tasks that an earlier process has accepted.
func (as *asks) resume(ctx context.Context) error {
	for n, err := range as.notes.Notes(ctx, as.b.at.Tenant, storage.NoteReply) {
		if err != nil {
			return fmt.Errorf("read the notes of tasks: %w", err)
		}
		if q := readAsk(&n); q != nil && !q.Answered {
			q.came = time.Now()
			as.mu.Lock()
			as.open[q.key()] = q
			as.mu.Unlock()
			as.wg.Go(func() { as.run(q, as.watch(q), nil) })
		}
	}
	return nil
}

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
	// A caller of the first generation notes a task only after it has sent it.
	select {
	case <-time.After(time.Until(q.came.Add(as.b.times.soonest))):
	case <-ctx.Done():
		return
	}
	free, err := as.hold(ctx, q.key())
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
		err = as.answer(ctx, q, r, typeResult)
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
		select {
		case <-time.After(as.b.times.pause):
		case <-ctx.Done():
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
			r.Message.Parts = append(r.Message.Parts, part{Kind: "data", Data: ref(string(v)), MimeType: ref("application/json")})
		}
	}
	return r, false, nil
}

// answer publishes an answer. A caller whose queue is not there has never been: it is not waited for.
func (as *asks) answer(ctx context.Context, q *ask, body any, kind string) error {
	err := as.b.line.send(ctx, &letter{topic: q.ReplyTo, kind: kind, correlation: q.Correlation, source: q.As, body: body})
	if errors.Is(err, errUnrouted) {
		as.b.at.Logger.Info("an answer is not delivered: RabbitMQ has no queue for it", "source", q.Source, "topic", q.ReplyTo, "context_id", q.Context)
		return nil
	}
	return err
}

// cancel takes a caller's cancellation of a task.
func (as *asks) cancel(ctx context.Context, d *amqp.Delivery) {
	if !isType(d, typeCancel) {
		as.refuse(ctx, d, "it is no cancellation: its type is "+shorten.Line(d.Type, 100))
		return
	}
	c := &cancelRequest{}
	if err := read(d.Body, c, "taskId"); err != nil {
		as.refuse(ctx, d, err.Error())
		return
	}
	reply, err := replyTopic(d.ReplyTo)
	if err != nil {
		as.refuse(ctx, d, err.Error())
		return
	}
	source := cmp.Or(shorten.To(valid(header(d, "rb-source")), maxName), unknownSource)
	name := as.sourceOf(d)
	key, err := as.wanted(ctx, source, name, c)
	if err != nil {
		as.b.again(ctx, d, err)
		return
	}
	free, err := as.hold(ctx, key)
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
		if err := asking.Cancel(ctx, q.Context, x); err != nil {
			as.b.again(ctx, d, err)
			return
		}
		if q.Asked { // no turn is open that would be answered
			q.Asked = false
			_ = as.store(ctx, q)
			_ = as.answer(ctx, q, &result{TaskID: q.Task, ContextID: q.contextID(), State: canceled, Message: say("agent", conversation.AnswerCanceled)}, typeResult)
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

// forget forgets tasks that were answered a while ago, until ctx ends.
func (as *asks) forget(ctx context.Context) error {
	tick := time.NewTicker(forgetEach)
	defer tick.Stop()
	for {
		as.sweep(ctx, as.b.now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (as *asks) sweep(ctx context.Context, now time.Time) {
	var old []string
	for n, err := range as.notes.Notes(ctx, as.b.at.Tenant, storage.NoteReply) {
		if err != nil {
			return // again in an hour
		}
		if q := readAsk(&n); q != nil && (q.Answered && !q.Asked && now.Sub(q.At) > answeredFor || now.Sub(q.At) > openFor) {
			old = append(old, n.Key)
		}
	}
	for _, key := range old {
		if err := as.notes.DeleteNote(ctx, as.b.at.Tenant, storage.NoteReply, key, 0); err != nil && ctx.Err() == nil {
			as.b.at.Logger.Warn("the note of a task is still stored", "err", err)
		}
	}
}
