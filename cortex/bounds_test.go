package cortex_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestFailureIsAnswered(t *testing.T) {
	tests := map[string]struct {
		decide decideFunc
		want   string
	}{
		"error":   {func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { return nil, llm.ErrUnavailable }, "model unavailable"},
		"panic":   {func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { panic("boom") }, "the decider panicked: boom"},
		"nothing": {func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { return nil, nil }, "invalid decision"},
		"no such": {simple(func(*llm.Turn) *llm.Decision { return delegate(llm.Delegation{ID: "1", Agent: "nobody", Task: "x"}) }), "nobody"},
		"never ready": {func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "no decision within 2m0s"},
	}
	for name, test := range tests {
		decide := decideFunc(func(ctx context.Context, turn *llm.Turn, s func(string)) (*llm.Decision, error) {
			if turn.User == "and now" {
				return respond("fine"), nil
			}
			return test.decide(ctx, turn, s)
		})
		for kind, decider := range map[string]llm.Decider{"waits": decide, "computes": computing{decide}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, decider)
					w.say("m1", "go")
					pass(3 * time.Minute)
					if got := w.answers()["m1"]; !strings.Contains(got, test.want) || strings.Contains(got, "\n") {
						t.Errorf("answer %q, want one line that contains %q", got, test.want)
					}
					w.say("m2", "and now") // the conversation goes on
					w.wantAnswer("m2", "fine")
				})
			})
		}
	}
}

// computing is a decider that says of itself that it only computes.
type computing struct{ llm.Decider }

func (computing) Computes() bool { return true }

func TestStepsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := 0
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if t.Last {
				last++
				return respond("enough")
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: fmt.Sprint(len(t.Steps))})
		}))
		w.say("m1", "for ever")
		for i := range conversation.MaxSteps - 1 {
			tasks := w.tasksOf("alpha")
			if len(tasks) != i+1 {
				t.Fatalf("step %d: %d tasks", i, len(tasks))
			}
			w.finish("alpha", tasks[i].TaskID, "again")
		}
		w.wantAnswer("m1", "enough")
		if n := len(w.decisions()); n != conversation.MaxSteps || last != 1 {
			t.Errorf("%d decisions, %d of them as the last; want %d and 1", n, last, conversation.MaxSteps)
		}
	})
}

func TestOpenTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
		}))
		for i := range conversation.MaxOpenTurns + 1 {
			w.say(fmt.Sprintf("m%d", i), "go")
		}
		answers := w.answers()
		if got := answers[fmt.Sprintf("m%d", conversation.MaxOpenTurns)]; len(answers) != 1 || !strings.Contains(got, "open requests") {
			t.Errorf("answers %v, want only that there are too many open requests", answers)
		}
	})
}

// TestAgentsLeaveOpenTurns checks that a person is heard, however much agents ask for while they work for that person.
func TestAgentsLeaveOpenTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, giving)
		w.say("m1", "alpha: go")
		for i := range conversation.MaxOpenTurns + 1 {
			w.sayAs("alpha", fmt.Sprint("a", i), "beta: go")
		}
		w.say("m2", "gamma: go")
		answers := w.answers()
		if got := answers[fmt.Sprint("a", conversation.MaxOpenTurns)]; len(answers) != 1 || !strings.Contains(got, "open requests") {
			t.Errorf("answers %v, want only that the agent has too many open requests", answers)
		}
		if n := len(w.tasksOf("gamma")); n != 1 {
			t.Errorf("gamma has %d tasks, want the one that the user asked for", n)
		}
	})
}

// refusing accepts nothing for an agent's inbox for a while.
type refusing struct {
	transport.Transport
	left atomic.Int32
}

func (r *refusing) Publish(ctx context.Context, topic transport.Topic, e *transport.Event) error {
	if topic == transport.Inbox("", "alpha") && r.left.Add(-1) >= 0 {
		return transport.ErrUnavailable
	}
	return r.Transport.Publish(ctx, topic, e)
}

// TestTaskThatCannotBeSentYet checks that an event is delivered again until its task is sent, and is decided once.
func TestTaskThatCannotBeSentYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return respond(results(t))
		})
		w := newWorld(t, decider)
		w.stop()
		bus := &refusing{Transport: w.bus}
		bus.left.Store(3)
		w.start(cortex.Config{Transport: bus, Decider: decider})
		w.say("m1", "go")
		pass(time.Minute)
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
		if n := len(w.decisions()); n != 2 {
			t.Errorf("%d decisions, want 2", n)
		}
	})
}

// TestManyArtifacts has a task depend on more than fits into a message: it gets what fits, and the turn goes on.
func TestManyArtifacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b", DependsOn: []string{"1"}})
			}
			return respond("done")
		}))
		w.say("m1", "go")
		e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "here")
		for i := range 40 {
			e.Payload.(*a2a.Task).Artifacts = append(e.Payload.(*a2a.Task).Artifacts, &a2a.Artifact{
				ID: a2a.ArtifactID(fmt.Sprint(i)), Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", 60<<10))},
			})
		}
		w.publish(e)
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "done")
		conv, err := storage.Load(t.Context(), w.store, "", theContext)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(conv); err != nil || len(b) > 2<<20 {
			t.Errorf("the fold of one turn is %d bytes, want at most 2 MiB", len(b))
		}
	})
}

// TestFailedTasksFailTheTurn checks that an answer is marked as failed when no task was done, for scripts.
func TestFailedTasksFailTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			}
			return respond(results(t))
		}))
		for i, beta := range []a2a.TaskState{a2a.TaskStateFailed, a2a.TaskStateCompleted} {
			turn := fmt.Sprint("m", i)
			w.say(turn, "go")
			w.publish(resultEvent(fmt.Sprint("a", i), "alpha", w.tasksOf("alpha")[i].TaskID, a2a.TaskStateFailed, "no"))
			w.publish(resultEvent(fmt.Sprint("b", i), "beta", w.tasksOf("beta")[i].TaskID, beta, "so"))
			conv, err := storage.Load(t.Context(), w.store, "", theContext)
			if err != nil {
				t.Fatal(err)
			}
			m, ok := conv.AnswerOf("user", turn)
			if want := beta != a2a.TaskStateCompleted; !ok || m.Metadata[transport.MetaFailed] != want {
				t.Errorf("beta %s: failed = %v, want %v", beta, m.Metadata[transport.MetaFailed], want)
			}
		}
	})
}

// TestStrangersWordsHaveWeight checks that the cache counts what is kept of the words of strangers, wherever they stand.
func TestStrangersWordsHaveWeight(t *testing.T) {
	type told struct{ id, state, post, share, reason string }
	weigh := func(x told) int {
		c := conversation.NewConversation("", theContext)
		apply := func(e *conversation.Entry) {
			t.Helper()
			e.Seq = c.Seq + 1
			e.Version = conversation.Version(e.Seq)
			if err := c.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		asks := userEvent("m"+x.id, "x")
		asks.Traceparent, asks.Tracestate = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b"+x.state
		d := delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "x"})
		d.Reason = x.reason
		apply(&conversation.Entry{Cause: asks, Turn: "t", Decision: d, Terms: map[string]conversation.Terms{"1": {Board: true}}})
		apply(&conversation.Entry{Cause: &transport.Event{
			ID: "p", From: "alpha", ContextID: theContext, TaskID: c.Running()[0].ID, Payload: &transport.Post{Name: "n", Text: "x" + x.post},
		}})
		apply(&conversation.Entry{Cause: &transport.Event{
			ID: "s", From: "user", ContextID: theContext, Payload: &transport.Share{With: []string{"user:x" + x.share}},
		}})
		return c.Weight()
	}
	more := strings.Repeat("m", 100)
	for name, x := range map[string]told{
		"an event's id": {id: more}, "the state of a trace": {state: more}, "a post": {post: more}, "who is let in": {share: more}, "why a task is given": {reason: more},
	} {
		if short, long := weigh(told{}), weigh(x); long-short < len(more) {
			t.Errorf("%s: a fold weighs %d with %d bytes more, and %d without", name, long, len(more), short)
		}
	}
}
