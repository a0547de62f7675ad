package cortex_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestDoneTaskIsNotSentAgain delivers the message of an answered turn again: its agent gets nothing.
func TestDoneTaskIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
		pass(transport.DuplicateWindow + time.Second) // the transport has forgotten the ids
		w.say("m1", "go")
		w.wantTasks("alpha", 1)
		if n := len(entries(t, w.store)); n != 2 {
			t.Errorf("%d entries, want 2: the message and the result", n)
		}
	})
}

// TestEachTaskHasItsOwnID gives two tasks in each of three turns, of two conversations.
func TestEachTaskHasItsOwnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
		}))
		w.say("m1", "go")
		w.say("m2", "go")
		w.sayIn("another", "m1", "go")
		ids := map[a2a.TaskID]bool{}
		for _, agent := range agentIDs {
			for _, e := range w.tasksOf(agent) {
				ids[e.TaskID] = true
			}
		}
		if len(ids) != 6 {
			t.Errorf("%d tasks came to the agents, want 6", len(ids))
		}
	})
}

// TestArtifactsGoWithTheTask has a task depend on another one with artifacts: its agent gets these, under their names.
func TestArtifactsGoWithTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b", DependsOn: []string{"1"}}))
		w.say("m1", "go")
		e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "here")
		e.Payload.(*a2a.Task).Artifacts = []*a2a.Artifact{{ID: "1", Name: "plan", Parts: a2a.ContentParts{a2a.NewTextPart("step by step")}}}
		w.publish(e)
		w.wantTasks("beta", 1)
		got := map[string]string{}
		for _, e := range w.tasksOf("beta") {
			for _, p := range message(e).Parts {
				got[p.Filename] = p.Text()
			}
		}
		want := map[string]string{"": "b", string(w.onlyTask("alpha")): "here", "plan": "step by step"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what beta got (-want +got):\n%s", diff)
		}
	})
}

// TestNoTaskBesideTheLog has a decision dropped because another writer was faster: its task is never sent.
func TestNoTaskBesideTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0:
				return respond(results(t))
			case len(t.History) == 0:
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return delegate(llm.Delegation{ID: "1", Agent: "beta", Task: "b"})
		})
		w := newWorld(t, decider)
		other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
		w.restart(cortex.Config{Decider: decider, Store: &conflicting{w.store, other}})
		w.say("m1", "second")
		if n := len(w.decisions()); n != 2 {
			t.Fatalf("%d decisions, want 2, of which the first is in no entry", n)
		}
		w.wantTasks("alpha", 0)
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "beta COMPLETED B; ")
	})
}

// TestDeciderWithoutBounds has a decider want too many tasks at once, without end: the user is told, and no agent gets any.
func TestDeciderWithoutBounds(t *testing.T) {
	t.Run("tasks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
				d := delegate()
				for i := range conversation.MaxParallel + 1 {
					d.Delegations = append(d.Delegations, llm.Delegation{ID: fmt.Sprint(i), Agent: "alpha", Task: "a"})
				}
				return d
			}))
			w.say("m1", "everything at once")
			w.wantTasks("alpha", 0)
			if got, want := w.answers()["m1"], fmt.Sprintf("%d delegations, at most %d", conversation.MaxParallel+1, conversation.MaxParallel); !strings.Contains(got, want) {
				t.Errorf("answer %q, want one with %q", got, want)
			}
		})
	})
	t.Run("steps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: fmt.Sprint(len(t.Steps))})
			}))
			w.say("m1", "for ever")
			for i := range conversation.MaxSteps - 1 {
				w.wantTasks("alpha", i+1)
				w.finish("alpha", w.tasksOf("alpha")[i].TaskID, "again")
			}
			w.wantTasks("alpha", conversation.MaxSteps-1)
			if got := w.answers()["m1"]; !strings.Contains(got, "no step is left") {
				t.Errorf("answer %q, want that no step was left", got)
			}
		})
	})
}
