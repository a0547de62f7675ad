package conversation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

var t0 = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// script applies events to a conversation, one entry after the other.
type script struct {
	t    *testing.T
	conv *conversation.Conversation
	now  time.Time
}

func newScript(t *testing.T) *script {
	t.Helper()
	return &script{t: t, conv: conversation.NewConversation("", "c1"), now: t0}
}

// apply plans e, and applies an entry for it with decision d, which is nil when no decision is needed.
func (s *script) apply(e *transport.Event, d *llm.Decision) *conversation.Entry {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	p := s.conv.Plan(e, s.now, false)
	if p.Do != conversation.Work {
		s.t.Fatalf("%s of %s is to be %d (%s), want work", e.ID, e.From, p.Do, p.Why)
	}
	entry := &conversation.Entry{
		Version: conversation.Version(s.conv.Seq + 1), Seq: s.conv.Seq + 1, Time: s.now, Cause: e, Turn: p.Turn, Decision: d,
		Deadline: s.now.Add(time.Minute), ReplyBy: s.now.Add(time.Hour),
	}
	if err := s.conv.Apply(entry); err != nil {
		s.t.Fatal(err)
	}
	return entry
}

func says(from, id, words string) *transport.Event {
	return &transport.Event{ID: id, From: from, ContextID: "c1", Payload: &a2a.Message{
		ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(words)},
	}}
}

func reports(from, id string, task a2a.TaskID, state a2a.TaskState, words string) *transport.Event {
	return &transport.Event{ID: id, From: from, ContextID: "c1", TaskID: task, Payload: &a2a.Task{
		ID: task, ContextID: "c1", Status: a2a.TaskStatus{State: state, Message: &a2a.Message{
			ID: id, Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(words)},
		}},
	}}
}

func gives(agent string) *llm.Decision {
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: agent, Task: "do it"}}}
}

// asks has agent ask a question about an earlier request of from, and returns the task.
func (s *script) asks(from, agent, id string) a2a.TaskID {
	s.t.Helper()
	s.apply(says(from, id, "do something"), gives(agent))
	running := s.conv.Running()
	task := running[len(running)-1].ID
	s.apply(reports(agent, "q"+id, task, a2a.TaskStateInputRequired, "how many?"), &llm.Decision{Kind: llm.KindClarify, Say: "how many?"})
	return task
}

// TestQuestionsOfOthersStay has agents ask one person again and again: that cancels the oldest question of that person, and nobody else's.
func TestQuestionsOfOthersStay(t *testing.T) {
	s := newScript(t)
	hers := s.asks("user:ada", "alpha", "ada")
	first := s.asks("evil", "beta", "evil")
	for i := range 40 {
		s.asks("evil", "beta", fmt.Sprint("evil", i))
	}
	if task := s.conv.Tasks[hers]; task == nil || task.Phase != conversation.Asking {
		t.Errorf("the task that waits for ada is %+v, want it to wait still", task)
	}
	if task := s.conv.Tasks[first]; task != nil && task.Phase == conversation.Asking {
		t.Error("all tasks of who asks again and again wait, want the oldest given up")
	}
	if n := len(s.conv.Asking()); n != 33 {
		t.Errorf("%d tasks wait, want 32 for evil and one for ada", n)
	}
}

// TestWaitsFor checks what a turn leaves with the user: what waits for a yes or a reply since it began, once it is answered.
func TestWaitsFor(t *testing.T) {
	s := newScript(t)
	id := func() string { return s.conv.Turns[len(s.conv.Turns)-1].ID }
	is := func(what, turn string, want a2a.TaskID) {
		t.Helper()
		got := a2a.TaskID("")
		if task := s.conv.WaitsFor(turn); task != nil {
			got = task.ID
		}
		if got != want {
			t.Errorf("%s: %q waits, want %q", what, got, want)
		}
	}
	is("no turn", "unknown", "")
	both := gives("alpha")
	both.Delegations = append(both.Delegations, llm.Delegation{ID: "2", Agent: "beta", Task: "do the rest"})
	s.apply(says("user", "m1", "do something"), both)
	first, running := id(), s.conv.Running()
	task := running[0].ID
	is("the agents work", first, "")
	s.apply(reports("alpha", "q1", task, a2a.TaskStateInputRequired, "how many?"), nil)
	is("one asks, and the other works", first, "")
	s.apply(reports("beta", "r1", running[1].ID, a2a.TaskStateCompleted, "done"), &llm.Decision{Kind: llm.KindClarify, Say: "how many?"})
	is("the agent has asked", first, task)
	s.apply(says("user", "m2", "what time is it?"), &llm.Decision{Kind: llm.KindRespond, Say: "late"})
	is("a later turn about something else", id(), "")
	is("the turn that asked", first, task)
	consent := &conversation.Entry{
		Version: conversation.Version(s.conv.Seq + 1), Seq: s.conv.Seq + 1, Time: t0, Cause: says("user", "m3", "delete it"), Turn: "t3",
		Decision: gives("alpha"), Consent: "Really?", Asked: t0, ReplyBy: t0.Add(time.Hour),
	}
	if err := s.conv.Apply(consent); err != nil {
		t.Fatal(err)
	}
	is("a yes is asked for", id(), s.conv.Held()[0].ID)
}
