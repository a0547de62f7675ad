package repl

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// script plays Cortex and its agents on a bus: it hands each event of Cortex's inbox to play, and says what play tells it.
type script struct {
	bus transport.Transport
	n   atomic.Int64
}

// serve hands the events of Cortex's inbox to play until the returned function is called.
func (s *script) serve(play func(e *transport.Event)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	sub, err := s.bus.Subscribe(ctx, transport.Inbox("", transport.Cortex), nil)
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		_ = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
			play(e)
			return nil
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// turnOf is the turn that the message say begins.
func turnOf(say *transport.Event) string {
	return transport.TurnID(say.Tenant, say.ContextID, say.From, say.ID)
}

// live publishes p as from on the conversation of the message say.
func (s *script) live(say *transport.Event, from string, p transport.Payload) {
	e := &transport.Event{ID: fmt.Sprintf("live-%d", s.n.Add(1)), From: from, ContextID: say.ContextID, Payload: p}
	if err := s.bus.Publish(context.Background(), transport.Live("", say.ContextID), e); err != nil {
		panic(err)
	}
}

func (s *script) delta(say *transport.Event, attempt, text string) {
	s.live(say, transport.Cortex, &transport.Delta{Turn: turnOf(say), Attempt: attempt, Text: text})
}

func (s *script) task(say *transport.Event, id a2a.TaskID, agent, text string) {
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	m.Metadata = map[string]any{transport.MetaAgentID: agent}
	s.live(say, transport.Cortex, &a2a.Task{
		ID: id, ContextID: say.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted},
		History: []*a2a.Message{m}, Metadata: map[string]any{transport.MetaTurn: turnOf(say)},
	})
}

func (s *script) progress(say *transport.Event, id a2a.TaskID, agent, text string) {
	s.live(say, agent, statusUpdate(say.ContextID, id, a2a.TaskStateWorking, text))
}

func (s *script) settle(say *transport.Event, id a2a.TaskID, state a2a.TaskState, text string) {
	u := statusUpdate(say.ContextID, id, state, text)
	u.Metadata = map[string]any{transport.MetaTurn: turnOf(say)}
	s.live(say, transport.Cortex, u)
}

func (s *script) answer(say *transport.Event, text string) {
	s.live(say, transport.Cortex, answerTo(say, text))
}

func (s *script) announce(c *transport.Card) {
	e := &transport.Event{ID: fmt.Sprintf("card-%d", s.n.Add(1)), From: c.AgentID, Payload: c}
	if err := s.bus.Publish(context.Background(), transport.Cards(""), e); err != nil {
		panic(err)
	}
}

func answerTo(say *transport.Event, text string) *a2a.Message {
	m := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(text))
	m.ID = "answer-to-" + say.ID
	m.Metadata = map[string]any{transport.MetaTurn: turnOf(say)}
	return m
}

func statusUpdate(contextID string, id a2a.TaskID, state a2a.TaskState, text string) *a2a.TaskStatusUpdateEvent {
	u := &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: contextID, Status: a2a.TaskStatus{State: state}}
	if text != "" {
		u.Status.Message = a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(text))
	}
	return u
}

// card returns the announcement of an agent.
func card(id, instance, description string) *transport.Card {
	return &transport.Card{AgentID: id, Instance: instance, Card: &a2a.AgentCard{Name: id, Description: description, Skills: []a2a.AgentSkill{}}}
}

// text returns the text of an event's message.
func text(e *transport.Event) string {
	if m, ok := e.Payload.(*a2a.Message); ok {
		return transport.Text(m.Parts)
	}
	return ""
}

// newScript returns a client and the script that answers it.
func newScript(t *testing.T, play func(s *script, e *transport.Event)) (*script, *Client) {
	t.Helper()
	bus := memory.New(nil)
	s := &script{bus: bus}
	stop := s.serve(func(e *transport.Event) { play(s, e) })
	t.Cleanup(func() {
		stop()
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, &Client{Transport: bus}
}
