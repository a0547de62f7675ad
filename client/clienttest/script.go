// Package clienttest plays Cortex and its agents, for tests of whoever asks through package client.
package clienttest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// Script plays Cortex and its agents on a bus: it hands each event of Cortex's inbox to play, and says what play tells it.
type Script struct {
	Bus transport.Transport
	n   atomic.Int64
}

// Serve hands the events of Cortex's inbox to play until the returned function is called.
func (s *Script) Serve(play func(e *transport.Event)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	sub, err := s.Bus.Subscribe(ctx, transport.Inbox("", transport.Cortex), nil)
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

// TurnOf is the turn that the message say begins.
func TurnOf(say *transport.Event) string {
	return transport.TurnID(say.Tenant, say.ContextID, say.From, say.ID)
}

// Live publishes p as from on the conversation of the message say.
func (s *Script) Live(say *transport.Event, from string, p transport.Payload) {
	e := &transport.Event{ID: fmt.Sprintf("live-%d", s.n.Add(1)), From: from, ContextID: say.ContextID, Payload: p}
	if err := s.Bus.Publish(context.Background(), transport.Live("", say.ContextID), e); err != nil {
		panic(err)
	}
}

// Delta publishes a piece of the answer to say.
func (s *Script) Delta(say *transport.Event, attempt, text string) {
	s.Live(say, transport.Cortex, &transport.Delta{Turn: TurnOf(say), Attempt: attempt, Text: text})
}

// Task publishes a delegation.
func (s *Script) Task(say *transport.Event, id a2a.TaskID, agent, text string) {
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	m.Metadata = map[string]any{transport.MetaAgentID: agent}
	s.Live(say, transport.Cortex, &a2a.Task{
		ID: id, ContextID: say.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted},
		History: []*a2a.Message{m}, Metadata: map[string]any{transport.MetaTurn: TurnOf(say)},
	})
}

// Progress publishes what an agent says while it works.
func (s *Script) Progress(say *transport.Event, id a2a.TaskID, agent, text string) {
	s.Live(say, agent, StatusUpdate(say.ContextID, id, a2a.TaskStateWorking, text))
}

// Settle publishes the end of a delegation.
func (s *Script) Settle(say *transport.Event, id a2a.TaskID, state a2a.TaskState, text string) {
	u := StatusUpdate(say.ContextID, id, state, text)
	u.Metadata = map[string]any{transport.MetaTurn: TurnOf(say)}
	s.Live(say, transport.Cortex, u)
}

// Answer publishes the answer to say.
func (s *Script) Answer(say *transport.Event, text string) {
	s.Live(say, transport.Cortex, AnswerTo(say, text))
}

// Announce publishes a card.
func (s *Script) Announce(c *transport.Card) {
	e := &transport.Event{ID: fmt.Sprintf("card-%d", s.n.Add(1)), From: c.AgentID, Payload: c}
	if err := s.Bus.Publish(context.Background(), transport.Cards(""), e); err != nil {
		panic(err)
	}
}

// AnswerTo is an answer to the message say.
func AnswerTo(say *transport.Event, text string) *a2a.Message {
	m := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(text))
	m.ID = "answer-to-" + say.ID
	m.Metadata = map[string]any{transport.MetaTurn: TurnOf(say)}
	return m
}

// StatusUpdate is news of a task.
func StatusUpdate(contextID string, id a2a.TaskID, state a2a.TaskState, text string) *a2a.TaskStatusUpdateEvent {
	u := &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: contextID, Status: a2a.TaskStatus{State: state}}
	if text != "" {
		u.Status.Message = a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(text))
	}
	return u
}

// Card returns the announcement of an agent.
func Card(id, instance, description string) *transport.Card {
	return &transport.Card{AgentID: id, Instance: instance, Card: &a2a.AgentCard{Name: id, Description: description, Skills: []a2a.AgentSkill{}}}
}

// Text returns the text of an event's message.
func Text(e *transport.Event) string {
	if m, ok := e.Payload.(*a2a.Message); ok {
		return transport.Text(m.Parts)
	}
	return ""
}

// New returns a client and the script that answers it.
func New(t testing.TB, play func(s *Script, e *transport.Event)) (*Script, *client.Client) {
	t.Helper()
	bus := memory.New(nil)
	s := &Script{Bus: bus}
	stop := s.Serve(func(e *transport.Event) { play(s, e) })
	t.Cleanup(func() {
		stop()
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, &client.Client{Transport: bus}
}
