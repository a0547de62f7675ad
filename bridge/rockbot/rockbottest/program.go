package rockbottest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Program is a process of RockBot: an agent that works, and an orchestrator that has agents work. It works on one task at a time.
type Program struct {
	Name string
	// Skills are the ids of its skills.
	Skills []string
	// Second says that it is of the second generation.
	Second bool
	// URL is that of its card, for the second generation; "": none.
	CardURL string
	// Do works on a task; nil echoes it. It answers by the methods of Work.
	Do func(*Work)
	// Wrong is called with each message that RockBot would not have read so.
	Wrong func(error)

	mu      sync.Mutex
	conn    *amqp.Connection
	raw     net.Conn
	pub     *amqp.Channel
	heard   []*Message          // responses and status updates
	cards   map[string]*Message // by name in lower case
	changed chan struct{}
	wg      sync.WaitGroup
}

// subscriptions are the topics of a program, by the names of its queues.
func (p *Program) subscriptions() map[string]string {
	clean := strings.NewReplacer(".", "-", "*", "_", "#", "__")
	all := map[string]string{p.Name + ".discovery": "discovery.announce"}
	for _, topic := range []string{"agent.task." + p.Name, "agent.task.cancel." + p.Name, "agent.response." + p.Name, "agent.task.status"} {
		all[p.Name+"."+clean.Replace(topic)] = topic
	}
	return all
}

// Connect connects, declares what the first generation declares, and consumes it. It announces nothing.
func (p *Program) Connect(url string) error {
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: 10 * time.Second, Dial: func(network, address string) (net.Conn, error) {
		c, err := net.DialTimeout(network, address, 10*time.Second)
		p.mu.Lock()
		p.raw = c
		p.mu.Unlock()
		return c, err
	}})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.conn = conn
	if p.cards == nil {
		p.cards, p.changed = map[string]*Message{}, make(chan struct{})
	}
	p.mu.Unlock()
	pub, err := conn.Channel()
	if err == nil {
		err = pub.Confirm(false) // RockBot does not ask for that; tests know by it what RabbitMQ has
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.pub = pub
	p.mu.Unlock()
	for name, topic := range p.subscriptions() {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := Declare(ch, name, topic); err != nil {
			return err
		}
		if err := ch.Qos(10, 0, false); err != nil {
			return err
		}
		in, err := ch.Consume("rockbot."+name, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		p.wg.Go(func() {
			for d := range in {
				p.take(&d)
			}
		})
	}
	return nil
}

// Declare declares a subscription as the first generation does: its exchanges, its queue, and the queue of its dead letters.
func Declare(ch *amqp.Channel, subscription, topic string) error {
	for _, name := range []string{"rockbot", "rockbot.dlx"} {
		if err := ch.ExchangeDeclare(name, "topic", true, false, false, false, nil); err != nil {
			return err
		}
	}
	args := amqp.Table{"x-dead-letter-exchange": "rockbot.dlx", "x-dead-letter-routing-key": topic}
	if _, err := ch.QueueDeclare("rockbot."+subscription, true, false, false, false, args); err != nil {
		return err
	}
	if err := ch.QueueBind("rockbot."+subscription, topic, "rockbot", false, nil); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare("rockbot."+subscription+".dlq", true, false, false, false, nil); err != nil {
		return err
	}
	return ch.QueueBind("rockbot."+subscription+".dlq", topic, "rockbot.dlx", false, nil)
}

// take takes a message.
func (p *Program) take(d *amqp.Delivery) {
	m, err := Read(d)
	if err != nil && p.Wrong != nil && (m.Source == "" || !strings.HasPrefix(m.Source, "stranger")) {
		p.Wrong(fmt.Errorf("%s: %w", p.Name, err))
	}
	if err != nil {
		_ = d.Reject(false)
		return
	}
	switch {
	case d.RoutingKey == "discovery.announce":
		p.mu.Lock()
		name := strings.ToLower(text(m.Body["agentName"]))
		if p.cards[name] = m; m.Body["isDeregistering"] == true {
			delete(p.cards, name)
		}
		p.wake()
		p.mu.Unlock()
	case m.Type == Request:
		w := &Work{Message: m, p: p}
		w.Status(Working, "")
		if do := p.Do; do != nil {
			do(w)
		} else {
			w.Result(Completed, m.Text())
		}
	case m.Type == Cancel:
		p.Publish(m.ReplyTo, Error, m.Correlation, "", map[string]any{
			"taskId": m.Task(), "contextId": nil, "code": "task_not_cancelable", "message": "Task is not cancelable", "isRetryable": false,
		})
		p.note(m)
	default:
		p.note(m)
	}
	_ = d.Ack(false)
}

func (p *Program) note(m *Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, m)
	p.wake()
}

// wake wakes those who wait. p.mu is held.
func (p *Program) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Until waits until f, which is called while nothing changes, returns true.
func (p *Program) Until(ctx context.Context, f func(heard []*Message, cards map[string]*Message) bool) error {
	for {
		p.mu.Lock()
		ok, changed := f(p.heard, p.cards), p.changed
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			return fmt.Errorf("%s has heard %d messages, which is not enough: %w", p.Name, len(p.heard), ctx.Err())
		}
	}
}

// Responses returns the results and errors of a task so far.
func (p *Program) Responses(task string) []*Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return of(p.heard, task, Result, Error)
}

// Statuses returns the status updates of a task so far.
func (p *Program) Statuses(task string) []*Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return of(p.heard, task, Status)
}

// Cancels returns the cancellations so far.
func (p *Program) Cancels() (all []*Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.heard {
		if m.Type == Cancel {
			all = append(all, m)
		}
	}
	return all
}

func of(heard []*Message, task string, kinds ...string) (all []*Message) {
	for _, m := range heard {
		if m.Correlation == task && slices.Contains(kinds, m.Type) {
			all = append(all, m)
		}
	}
	return all
}

// Response waits for the n-th response to a task.
func (p *Program) Response(ctx context.Context, task string, n int) (m *Message, err error) {
	err = p.Until(ctx, func(heard []*Message, _ map[string]*Message) bool {
		all := of(heard, task, Result, Error)
		if len(all) >= n {
			m = all[n-1]
		}
		return m != nil
	})
	return m, err
}

// Knows waits until the program knows an agent, or no longer knows it.
func (p *Program) Knows(ctx context.Context, name string, is bool) (m *Message, err error) {
	err = p.Until(ctx, func(_ []*Message, cards map[string]*Message) bool {
		m = cards[strings.ToLower(name)]
		return (m != nil) == is
	})
	return m, err
}

// NewID returns an id as RockBot makes them.
func NewID() string {
	id := uuid.New()
	return fmt.Sprintf("%x", id[:])
}

// Publish publishes a message, as RockBot does: without waiting.
func (p *Program) Publish(topic, kind, correlation, replyTo string, body any) {
	b, err := json.Marshal(body)
	if err == nil {
		err = p.Raw(topic, amqp.Publishing{
			ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: NewID(), Type: kind, CorrelationId: correlation, ReplyTo: replyTo,
			Timestamp: time.Now(), Headers: amqp.Table{"rb-source": p.Name}, Body: b,
		})
	}
	_ = err // RockBot does not know either
}

// Raw publishes anything.
func (p *Program) Raw(topic string, m amqp.Publishing) error {
	return p.channel().PublishWithContext(context.Background(), "rockbot", topic, false, false, m)
}

func (p *Program) channel() *amqp.Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pub
}

// Keep connects, and again whenever the connection has ended, until ctx ends. It calls there each time.
func (p *Program) Keep(ctx context.Context, url string, there func()) {
	for ctx.Err() == nil {
		if err := p.Connect(url); err == nil {
			p.mu.Lock()
			conn := p.conn
			p.mu.Unlock()
			ended := conn.NotifyClose(make(chan *amqp.Error, 1))
			there()
			select {
			case <-ended:
			case <-ctx.Done():
			}
		}
		p.Close()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Hand sends a task, and returns whether RabbitMQ is known to have it.
func (p *Program) Hand(ctx context.Context, id, agent, skill, text string) bool {
	body, err := json.Marshal(map[string]any{"taskId": id, "contextId": nil, "skill": skill, "message": said("user", text)})
	pub := p.channel()
	if err != nil || pub == nil {
		return false
	}
	confirmed, err := pub.PublishWithDeferredConfirmWithContext(ctx, "rockbot", "agent.task."+agent, false, false, amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: NewID(), Type: Request, CorrelationId: id, ReplyTo: "agent.response." + p.Name,
		Timestamp: time.Now(), Headers: amqp.Table{"rb-source": p.Name}, Body: body,
	})
	if err != nil {
		return false
	}
	ok, err := confirmed.WaitContext(ctx)
	return err == nil && ok
}

// Card returns the program's card.
func (p *Program) Card() map[string]any {
	skills := []any{}
	for _, id := range p.Skills {
		skills = append(skills, map[string]any{"id": id, "name": id, "description": "Does " + id, "tags": nil, "examples": nil})
	}
	c := map[string]any{"agentName": p.Name, "description": "The agent " + p.Name, "version": "1.0", "skills": skills, "isDeregistering": false}
	if p.Second {
		for _, name := range second {
			c[name] = nil
		}
		if p.CardURL != "" {
			c["url"], c["protocolVersion"], c["supportsStreaming"] = p.CardURL, "1.0", true
		}
	}
	return c
}

// Announce announces the program.
func (p *Program) Announce() { p.Publish("discovery.announce", Card, "", "", p.Card()) }

// Leave says that the program leaves.
func (p *Program) Leave() {
	c := p.Card()
	c["isDeregistering"] = true
	p.Publish("discovery.announce", Card, "", "", c)
}

// Invoke has an agent do something, and returns the task's id.
func (p *Program) Invoke(agent, skill, text string) string {
	id := NewID()
	p.Send(id, agent, skill, text, nil)
	return id
}

// Send sends a task with an id, or what continues it.
func (p *Program) Send(id, agent, skill, text string, contextID any) {
	p.Publish("agent.task."+agent, Request, id, "agent.response."+p.Name, map[string]any{
		"taskId": id, "contextId": contextID, "skill": skill, "message": said("user", text),
	})
}

// Cancel cancels a task.
func (p *Program) Cancel(id, agent string) {
	p.Publish("agent.task.cancel."+agent, Cancel, id, "agent.response."+p.Name, map[string]any{"taskId": id, "contextId": nil})
}

func said(role, text string) map[string]any {
	return map[string]any{"role": role, "parts": []any{map[string]any{"kind": "text", "text": text, "data": nil, "mimeType": nil}}}
}

// Kill cuts the connection: tasks that are worked on go back to their queue.
func (p *Program) Kill() {
	p.mu.Lock()
	raw, conn := p.raw, p.conn
	p.mu.Unlock()
	if raw != nil {
		_ = raw.Close()
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// Close ends the program, and waits until it works on nothing any more.
func (p *Program) Close() {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	p.wg.Wait()
}

// Work is a task that an agent works on.
type Work struct {
	*Message
	p *Program
}

// Status says that the agent works on the task, and perhaps what it does.
func (w *Work) Status(state int, text string) {
	var m any
	if text != "" {
		m = said("agent", text)
	}
	w.p.Publish("agent.task.status", Status, w.Correlation, "", map[string]any{"taskId": w.Task(), "contextId": w.Body["contextId"], "state": state, "message": m})
}

// Result ends the task, or asks something.
func (w *Work) Result(state int, text string) { w.Answer(state, text, w.Body["contextId"]) }

// Answer is Result with a context.
func (w *Work) Answer(state int, text string, contextID any) {
	w.p.Publish(w.ReplyTo, Result, w.Correlation, "", map[string]any{
		"taskId": w.Task(), "contextId": contextID, "state": state, "artifacts": nil, "message": said("agent", text),
	})
}

// Fail ends the task with an error.
func (w *Work) Fail(why string) {
	w.p.Publish(w.ReplyTo, Error, w.Correlation, "", map[string]any{
		"taskId": w.Task(), "contextId": nil, "code": "execution_failed", "message": why, "isRetryable": false,
	})
}
