// Package agentstest runs an agent in a test, as Cortex would run it, without a Cortex, a server or a port:
//
//	c := agentstest.Serve(t, handler)
//	if got := c.Do("hello"); got.Text != "HELLO" {
//		t.Errorf("got %+v", got)
//	}
package agentstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// agentID is the agent under test, and conversationID the conversation of its tasks.
const (
	agentID        = "agent_under_test"
	conversationID = "conversation"
)

// Cortex stands in for Cortex: it gives an agent tasks, and answers its requests.
type Cortex struct {
	t   testing.TB
	bus *memory.Bus

	mu     sync.Mutex
	n      int
	answer func(*a2a.Message) (string, error)
	doing  map[a2a.TaskID]*doing
	bids   map[string]chan<- *transport.Bid // by the ids of tenders
}

type doing struct {
	got      Outcome
	finished chan struct{}
}

// Outcome is the outcome of a task.
type Outcome struct {
	State     a2a.TaskState
	Text      string           // of the result, the question or the failure
	Parts     a2a.ContentParts // all parts of it
	Artifacts []*a2a.Artifact
	Progress  []string // progress that was shown; texts in quick succession are left out, as for people
	Streamed  string   // the text that was shown as it was made
}

// Data returns the first structured part of the result, or nil.
func (o *Outcome) Data() any {
	for _, p := range o.Parts {
		if d, ok := p.Content.(a2a.Data); ok {
			return d.Value
		}
	}
	return nil
}

// Serve runs an agent until the end of the test. It also works in a bubble of testing/synctest.
func Serve(t testing.TB, x agents.Executor) *Cortex {
	t.Helper()
	return ServeWith(t, x, nil, nil)
}

// ServeWith is [Serve] for an agent with a card, whose name it replaces, and with options, such as one that bids. Either may be nil.
func ServeWith(t testing.TB, x agents.Executor, card *a2a.AgentCard, o *agents.Options) *Cortex {
	t.Helper()
	its, with := a2a.AgentCard{}, agents.Options{}
	if card != nil {
		its = *card
	}
	if o != nil {
		with = *o
	}
	its.Name, with.Grace = agentID, -1
	c := &Cortex{t: t, bus: memory.New(nil), doing: map[a2a.TaskID]*doing{}, bids: map[string]chan<- *transport.Bid{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	c.listen(ctx, &running, transport.Inbox("", transport.Cortex), c.receive)
	c.listen(ctx, &running, transport.Live("", conversationID), c.watch)
	c.listen(ctx, &running, transport.Control("", transport.Cortex), c.control)
	tr := c.bus.Dial()
	running.Go(func() {
		if err := agents.Serve(ctx, tr, &its, x, &with); err != nil {
			t.Errorf("agentstest: the agent ended: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = tr.Close()
		_ = c.bus.Close()
	})
	return c
}

func (c *Cortex) listen(ctx context.Context, running *sync.WaitGroup, topic transport.Topic, h func(*transport.Event)) {
	sub, err := c.bus.Subscribe(ctx, topic, nil)
	if err != nil {
		c.t.Fatalf("agentstest: %v", err)
	}
	running.Go(func() {
		_ = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
			h(e)
			return nil
		})
	})
}

// Question is an error of the function of [Cortex.Answer] that is no failure: the answer asks back, as another agent's does that has to know more.
type Question string

func (q Question) Error() string { return string(q) }

// Answer sets the function that answers requests of the agent with [agents.Task.Ask]; its error is reported to the agent as a failure, unless it is a
// [Question]. Without it, every request fails.
func (c *Cortex) Answer(f func(request *a2a.Message) (string, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// Do gives the agent a task with a text, and waits for its outcome.
func (c *Cortex) Do(text string) *Outcome {
	c.t.Helper()
	return c.Task(&a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart(text)}})
}

// DoSkill gives the agent a task for one of its skills, with structured input.
func (c *Cortex) DoSkill(skill string, input any) *Outcome {
	c.t.Helper()
	return c.Task(&a2a.Message{Parts: a2a.ContentParts{a2a.NewDataPart(input)}, Metadata: map[string]any{transport.MetaTaskType: skill}})
}

// Task gives the agent m as a task, and waits for its outcome. It fills in what m leaves out; a reply to a question has the
// question's TaskID.
func (c *Cortex) Task(m *a2a.Message) *Outcome {
	c.t.Helper()
	m2 := *m
	c.mu.Lock()
	c.n++
	m2.ID, m2.Role, m2.ContextID = fmt.Sprint("message-", c.n), a2a.MessageRoleUser, conversationID
	if m2.TaskID == "" {
		m2.TaskID = a2a.TaskID(fmt.Sprint("task-", c.n))
	}
	d := &doing{finished: make(chan struct{})}
	c.doing[m2.TaskID] = d
	c.mu.Unlock()
	e := &transport.Event{ID: m2.ID, Time: time.Now(), From: transport.Cortex, ContextID: conversationID, TaskID: m2.TaskID, Payload: &m2}
	if err := c.bus.Publish(context.Background(), transport.Inbox("", agentID), e); err != nil {
		c.t.Fatalf("agentstest: %v", err)
	}
	<-d.finished
	return &d.got
}

// receive handles results and requests of the agent.
func (c *Cortex) receive(e *transport.Event) {
	if m, ok := transport.Request(e); ok {
		c.reply(e, m)
		return
	}
	t, ok := e.Payload.(*a2a.Task)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.doing[t.ID]
	if d == nil {
		return
	}
	delete(c.doing, t.ID)
	d.got.State, d.got.Artifacts = t.Status.State, t.Artifacts
	if t.Status.Message != nil {
		d.got.Parts = t.Status.Message.Parts
		d.got.Text = transport.Text(d.got.Parts)
	}
	close(d.finished)
}

// reply answers a request of the agent.
func (c *Cortex) reply(e *transport.Event, m *a2a.Message) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	text, err := "", fmt.Errorf("nobody answers: the test has not called Answer")
	if answer != nil {
		text, err = answer(m)
	}
	if err != nil {
		text = err.Error()
	}
	id := transport.MessageEventID(e)
	a := &a2a.Message{
		ID: "answer-" + id, ContextID: e.ContextID, Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)},
		Metadata: map[string]any{transport.MetaMessage: id, transport.MetaFailed: err != nil},
	}
	if _, asks := errors.AsType[Question](err); asks {
		a.Metadata[transport.MetaFailed], a.Metadata[transport.MetaDecision] = false, transport.DecisionClarify
	}
	out := &transport.Event{ID: a.ID, Time: time.Now(), From: transport.Cortex, ContextID: e.ContextID, Payload: a}
	for _, topic := range []transport.Topic{transport.Inbox("", agentID), transport.Control("", agentID)} {
		if err := c.bus.Publish(context.Background(), topic, out); err != nil {
			c.t.Errorf("agentstest: answer %q: %v", text, err)
		}
	}
}

// watch records what the agent shows. Events after its result are lost, as for people.
func (c *Cortex) watch(e *transport.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p := e.Payload.(type) {
	case *a2a.TaskStatusUpdateEvent:
		if d := c.doing[p.TaskID]; d != nil && p.Status.Message != nil {
			d.got.Progress = append(d.got.Progress, transport.Text(p.Status.Message.Parts))
		}
	case *a2a.TaskArtifactUpdateEvent:
		if d := c.doing[p.TaskID]; d != nil && p.Artifact.ID == transport.TextArtifact {
			d.got.Streamed += transport.Text(p.Artifact.Parts)
		}
	}
}
