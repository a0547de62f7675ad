package conversation_test

import (
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
)

// TestPastKeepsTimes checks that the tasks of an answered turn keep the times when each was given and ended, not those of their turn.
func TestPastKeepsTimes(t *testing.T) {
	s := newScript(t)
	both := gives("quick")
	both.Delegations = append(both.Delegations, llm.Delegation{ID: "2", Agent: "slow", Task: "do the rest"})
	s.apply(says("user", "m1", "do something"), both)
	given, running := s.now, s.conv.Running()
	s.apply(reports("quick", "r1", running[0].ID, a2a.TaskStateCompleted, "done"), nil)
	first := s.now
	s.now = s.now.Add(time.Minute / 2)
	s.apply(reports("slow", "r2", running[1].ID, a2a.TaskStateCompleted, "done"), &llm.Decision{Kind: llm.KindRespond, Say: "both are done"})
	past := s.conv.Turns[0].Past
	if past == nil || len(past.Steps) != 1 || len(past.Steps[0].Tasks) != 2 {
		t.Fatalf("the turn keeps %+v, want one step of two tasks", past)
	}
	for i, ended := range []time.Time{first, s.now} {
		if task := past.Steps[0].Tasks[i]; !task.Sent.Equal(given) || !task.Settled.Equal(ended) {
			t.Errorf("task of %s: from %v to %v, want from %v to %v", task.Agent, task.Sent, task.Settled, given, ended)
		}
	}
}
