package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// relaying is a decider that gives alpha the user's words until it has a result, and answers with the results, or with why alpha cannot be asked.
var relaying = simple(func(t *llm.Turn) *llm.Decision {
	switch {
	case len(t.Steps) > 0:
		return respond(results(t))
	case len(t.Unavailable) > 0:
		return respond(t.Unavailable[0].ID + ": " + t.Unavailable[0].Why)
	}
	return delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: t.User})
})

// asks has a person or agent say something, in a conversation.
func (w *world) asks(from, id, text string) {
	e := userEvent(id, text)
	e.From = from
	w.publish(e)
}

func TestCallsAreLimited(t *testing.T) {
	const spent = "alpha: a rule allows 2 calls in 1m0s"
	type step struct {
		pass time.Duration
		from string
		want string
	}
	for _, test := range []struct {
		name, rule string
		steps      []step
	}{
		{"by asker", "calls: {most: 2, per: 1m}", []step{
			{0, "user:ann", ""},
			{30 * time.Second, "user:ann", ""},
			{0, "user:ann", spent},
			{0, "user:bob", ""},
			{29 * time.Second, "user:ann", spent},
			{time.Second, "user:ann", ""}, // the first is a minute ago
			{0, "user:ann", spent},
		}},
		{"by all", "calls: {most: 2, per: 1m, by: all}", []step{{0, "user:ann", ""}, {0, "user:bob", ""}, {0, "user:eve", spent}, {time.Minute, "user:eve", ""}}},
		{"of another skill", `calls: {most: 2, per: 1m, by: all}, skills: [other]`, []step{{0, "user:ann", ""}, {0, "user:ann", ""}, {0, "user:ann", ""}}},
		{"from others", `calls: {most: 2, per: 1m, by: all}, from: ["user:bob"]`, []step{{0, "user:ann", ""}, {0, "user:ann", ""}, {0, "user:ann", ""}, {0, "user:bob", ""}, {0, "user:bob", ""}, {0, "user:bob", spent}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.serveAgents()
				cfg := cortex.Config{Decider: relaying, Policy: rulesOf(t, "rules: [{agents: [alpha], "+test.rule+"}]")}
				w.start(cfg)
				for i, s := range test.steps {
					pass(s.pass)
					if i == 1 { // what is counted is not in this process
						w.stop()
						w.start(cfg)
					}
					id := fmt.Sprint("m", i)
					w.asks(s.from, id, "say "+id)
					want := s.want
					if want == "" {
						want = "alpha COMPLETED did say " + id + "; "
					}
					w.wantAnswer(id, want)
				}
			})
		})
	}
}

// TestCallsOfAWrongClock has the clock that was ahead set right: calls that were counted by it count no longer than a rule says.
func TestCallsOfAWrongClock(t *testing.T) {
	for rule, refusal := range map[string]string{
		"calls: {most: 1, per: 1m}": "alpha: a rule allows 1 calls in 1m0s", "repeat: {within: 1m}": "Nothing was done: alpha was asked for the same",
	} {
		for by, counts := range map[time.Duration]bool{10 * time.Second: true, 30 * 24 * time.Hour: false} {
			t.Run(fmt.Sprint(rule, by), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorldOf(t, agentIDs)
					w.serveAgents()
					cfg := cortex.Config{
						Decider: relaying, Policy: rulesOf(t, "rules: [{agents: [alpha], "+rule+"}]"), Now: func() time.Time { return time.Now().Add(by) },
					}
					w.start(cfg)
					w.say("m1", "go")
					w.wantAnswer("m1", "alpha COMPLETED did go; ")
					w.stop()
					cfg.Now = nil
					w.start(cfg)
					w.say("m2", "go")
					if got := w.answers()["m2"]; strings.HasPrefix(got, refusal) != counts || got == "" {
						t.Errorf("answer %q, want %q: %v", got, refusal, counts)
					}
				})
			})
		}
	}
}

// TestCallsOfASlowDecision has a decision take longer than the span of a limit, and another one be made meanwhile: calls count from when they are made, and
// not from when they were asked for.
func TestCallsOfASlowDecision(t *testing.T) {
	for rule, refusal := range map[string]string{
		"calls: {most: 1, per: 20s}": "alpha: a rule allows 1 calls in 20s", "repeat: {within: 20s}": "Nothing was done: alpha was asked for the same",
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.serveAgents()
				slow := true
				decider := func(ctx context.Context, turn *llm.Turn, stream func(string)) (*llm.Decision, error) {
					if slow {
						slow = false
						time.Sleep(30 * time.Second)
					}
					return relaying(ctx, turn, stream)
				}
				w.start(cortex.Config{Decider: decideFunc(decider), Policy: rulesOf(t, "rules: [{agents: [alpha], "+rule+"}]")})
				w.sayIn("a", "m1", "go")
				pass(25 * time.Second)
				w.sayIn("b", "m1", "go")
				if got := w.answerIn("b", "m1"); got != "alpha COMPLETED did go; " {
					t.Errorf("the first call: answer %q", got)
				}
				pass(6 * time.Second)
				w.sayIn("c", "m1", "go")
				for _, later := range []string{"a", "c"} {
					if got := w.answerIn(later, "m1"); !strings.HasPrefix(got, refusal) {
						t.Errorf("%s: answer %q, want %q", later, got, refusal)
					}
				}
				pass(15 * time.Second)
				w.sayIn("d", "m1", "go")
				w.wantAllTasks(2)
			})
		})
	}
}

// TestCallsWithoutNotes has a store that cannot count refuse what a rule limits, and nothing else.
func TestCallsWithoutNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.serveAgents()
		w.start(cortex.Config{Decider: relaying, Store: struct{ storage.Store }{w.store}, Policy: rulesOf(t, "rules: [{agents: [alpha], calls: {most: 2, per: 1m}}]")})
		w.say("m1", "go")
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "Nothing was done: rules of the policy limit how often this is called") {
			t.Errorf("answer %q", got)
		}
	})
}

func TestRepeatedCalls(t *testing.T) {
	const refused = "Nothing was done: alpha was asked for the same at "
	const first = "did pay 5\n\n(This was done before, and not again: the result is that of then.)"
	for _, test := range []struct {
		name, rule string
		says       []string // "from: text", or a time that passes, or "fails": the next task fails
		want       []string // beginnings of answers; "": as done
		tasks      int
	}{
		{"refused", "repeat: {within: 10m}", []string{"ann: pay 5", "ann: pay  5", "ann: pay 6", "bob: pay 5", "10m", "ann: pay 5"}, []string{"", refused, "", "", ""}, 4},
		{"first result", "repeat: {within: 10m, gives: result}", []string{"ann: pay 5", "ann: pay 5", "9m", "ann: pay 5", "1m", "ann: pay 5"}, []string{"", first, first, ""}, 2},
		{"another rule refuses", "repeat: {within: 10m, gives: result}}, {agents: [alpha], repeat: {within: 1m}", []string{"ann: pay 5", "ann: pay 5", "9m", "ann: pay 5"}, []string{"", refused, refused}, 1},
		{"of a failed call", "repeat: {within: 10m, gives: result}", []string{"fails", "ann: pay 5", "ann: pay 5", "ann: pay 5"}, []string{"alpha FAILED", "", first}, 2},
		{"of another skill", `skills: [other], repeat: {within: 10m}`, []string{"ann: pay 5", "ann: pay 5"}, []string{"", ""}, 2},
		{"with a yes", "confirm: true, repeat: {within: 10m}", []string{"ann: pay 5", "ann: yes", "ann: pay 5"}, []string{"alpha, skill", "", refused}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				fails := false
				w.heed = func(id string, e *transport.Event) {
					state, text := a2a.TaskStateCompleted, "did "+strings.Join(strings.Fields(transport.Text(e.Payload.(*a2a.Message).Parts)), " ")
					if fails {
						state, fails = a2a.TaskStateFailed, false
					}
					if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), resultEvent("r-"+string(e.TaskID), id, e.TaskID, state, text)); err != nil {
						t.Error(err)
					}
				}
				w.start(cortex.Config{Decider: relaying, Policy: rulesOf(t, "rules: [{agents: [alpha], "+test.rule+"}]")})
				n := 0
				for _, said := range test.says {
					if d, err := time.ParseDuration(said); err == nil {
						pass(d)
						continue
					}
					from, text, ok := strings.Cut(said, ": ")
					if !ok {
						fails = true
						continue
					}
					id := fmt.Sprint("m", n)
					w.asks("user:"+from, id, text)
					want := test.want[n]
					if want == "" {
						want = "alpha COMPLETED did "
					}
					if got := w.answers()[id]; !strings.HasPrefix(got, want) {
						t.Errorf("%d. %q is answered %q, want %q", n, said, got, want)
					}
					n++
				}
				w.wantAllTasks(test.tasks)
				w.wantFold()
			})
		})
	}
}

// TestRepeatedCallOfAnotherPerson has somebody repeat a call of theirs that they made elsewhere, in a conversation in which somebody else asked for the same:
// the result of that one is no answer.
func TestRepeatedCallOfAnotherPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.serveAgents()
		w.start(cortex.Config{Decider: relaying, Policy: rulesOf(t, "rules: [{agents: [alpha], repeat: {within: 1h, gives: result}}]")})
		for _, said := range []struct{ from, contextID, id, want string }{
			{"user:ann", "a", "m1", "alpha COMPLETED did my balance; "},
			{"user:bob", "b", "m2", "alpha COMPLETED did my balance; "},
			{"user:ann", "b", "m3", "Nothing was done: alpha was asked for the same at "},
			{"user:bob", "b", "m4", "did my balance\n\n(This was done before"},
		} {
			e := userEvent(said.id, "my balance")
			e.From, e.ContextID, e.Payload.(*a2a.Message).ContextID = said.from, said.contextID, said.contextID
			w.publish(e)
			if got := w.answerTo(said.from, said.contextID, said.id); !strings.HasPrefix(got, said.want) {
				t.Errorf("%s of %s: answer %q, want %q", said.id, said.from, got, said.want)
			}
		}
		w.wantAllTasks(2)
	})
}

// sluggish is a store that takes a second to read a count of calls: whoever asks meanwhile reads the same.
type sluggish struct{ *memstore.Store }

func (s sluggish) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	n, err := s.Store.Note(ctx, tenant, kind, key)
	if kind == storage.NoteCalls {
		time.Sleep(time.Second)
	}
	return n, err
}

// TestCallsAtOnce has somebody ask in several conversations at the same moment: a call that may not be repeated is made once, and one that was not made
// in the end may be asked for again.
func TestCallsAtOnce(t *testing.T) {
	const again = "Nothing was done: alpha was asked for the same at "
	for name, test := range map[string]struct {
		rule  string
		texts []string
		tasks int
		other string // the beginning of all other answers
		later int    // tasks when all is asked once more after 5 minutes
	}{
		"the same":   {"repeat: {within: 10m}", []string{"pay 5", "pay 5", "pay 5", "pay 5"}, 1, again, 1},
		"its result": {"repeat: {within: 10m, gives: result}", []string{"pay 5", "pay 5"}, 1, again, 1},
		"too many":   {"calls: {most: 1, per: 1m, by: all}, repeat: {within: 10m}", []string{"pay 5", "pay 6"}, 1, "alpha: a rule allows 1 calls in 1m0s", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.serveAgents()
				w.start(cortex.Config{Decider: relaying, Store: sluggish{w.store.(*memstore.Store)}, Policy: rulesOf(t, "rules: [{agents: [alpha], "+test.rule+"}]")})
				for i, text := range test.texts {
					w.sayIn(fmt.Sprint("c", i), "m1", text)
				}
				pass(5 * time.Minute)
				w.wantAllTasks(test.tasks)
				others := 0
				for i := range test.texts {
					if got := w.answerIn(fmt.Sprint("c", i), "m1"); strings.HasPrefix(got, test.other) {
						others++
					} else if !strings.HasPrefix(got, "alpha COMPLETED did ") {
						t.Errorf("%d: answer %q", i, got)
					}
				}
				if others != len(test.texts)-test.tasks {
					t.Errorf("%d answers begin with %q, want %d", others, test.other, len(test.texts)-test.tasks)
				}
				for i, text := range test.texts {
					w.sayIn(fmt.Sprint("c", i), "m2", text)
					pass(time.Minute)
				}
				w.wantAllTasks(test.later)
			})
		})
	}
}

// TestManyCallsAtOnce has people ask in many conversations at the same moment for what is counted for all of them together: who does not exceed the limit
// is not refused.
func TestManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, most = 60, 50
		w := newWorldOf(t, agentIDs)
		w.serveAgents()
		w.start(cortex.Config{
			Decider: relaying, Store: sluggish{w.store.(*memstore.Store)},
			Policy: rulesOf(t, fmt.Sprintf("rules: [{agents: [alpha], calls: {most: %d, per: 1h, by: all}}]", most)),
		})
		for i := range n {
			if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), requestOf("ann", i)); err != nil {
				t.Fatal(err)
			}
		}
		pass(5 * time.Minute)
		w.wantAllTasks(most)
		refused := 0
		for i := range n {
			if got := answerIn(t, w.store, requestOf("ann", i).ContextID); got == fmt.Sprintf("alpha: a rule allows %d calls in 1h0m0s", most) {
				refused++
			} else if !strings.HasPrefix(got, "alpha COMPLETED did ") {
				t.Errorf("%d: answer %q", i, got)
			}
		}
		if refused != n-most {
			t.Errorf("%d are refused, want %d", refused, n-most)
		}
	})
}

// hasty is a store in which another process is faster than each of the first attempts to write a count of calls.
type hasty struct {
	*memstore.Store
	left int
}

func (s *hasty) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if kind == storage.NoteCalls && s.left > 0 {
		s.left--
		return 0, storage.ErrConflict
	}
	return s.Store.PutNote(ctx, tenant, kind, n)
}

// TestCallsBesideAFasterProcess has another process write what is counted a hundred times in a row.
func TestCallsBesideAFasterProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.serveAgents()
		w.start(cortex.Config{
			Decider: relaying, Store: &hasty{w.store.(*memstore.Store), 100}, Policy: rulesOf(t, "rules: [{agents: [alpha], calls: {most: 1, per: 1h, by: all}}]"),
		})
		w.say("m1", "go")
		w.wantAnswer("m1", "alpha COMPLETED did go; ")
	})
}

// TestCallOfAnotherTask has a task end without a result that has not made the call which another one has made: that one may still not be repeated.
func TestCallOfAnotherTask(t *testing.T) {
	const again = "Nothing was done: alpha was asked for the same at "
	for name, test := range map[string]struct {
		rule string
		end  func(w *world, first a2a.TaskID) // ends the task of conversation b
	}{
		"not confirmed":  {"confirm: true, repeat: {within: 1h}", func(w *world, _ a2a.TaskID) { w.sayIn("b", "m2", "no") }},
		"something else": {"confirm: true, repeat: {within: 1h}", func(w *world, _ a2a.TaskID) { w.sayIn("b", "m2", "pay 7") }},
		"failed after a while": {"repeat: {within: 10s}", func(w *world, first a2a.TaskID) {
			e := resultEvent("r", "alpha", first, a2a.TaskStateFailed, "no")
			e.ContextID, e.Payload.(*a2a.Task).ContextID = "b", "b"
			w.publish(e)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				var got []a2a.TaskID
				w.heed = func(_ string, e *transport.Event) { got = append(got, e.TaskID) }
				w.start(cortex.Config{Decider: relaying, Policy: rulesOf(t, "rules: [{agents: [alpha], "+test.rule+"}]")})
				confirms := strings.HasPrefix(test.rule, "confirm")
				w.sayIn("b", "m1", "pay 5")
				var first a2a.TaskID
				if pass(10 * time.Second); !confirms {
					first = got[0]
				}
				w.sayIn("a", "m1", "pay 5")
				if pass(time.Second); confirms {
					w.sayIn("a", "m2", "yes")
					pass(time.Second)
				}
				before := len(got)
				test.end(w, first)
				pass(time.Second)
				w.sayIn("c", "m1", "pay 5")
				pass(time.Second)
				if got := w.answerIn("c", "m1"); !strings.HasPrefix(got, again) {
					t.Errorf("answer %q, want %q", got, again)
				}
				if len(got) != before || before == 0 {
					t.Errorf("%d tasks, want %d", len(got), before)
				}
			})
		})
	}
}

// TestCallOfACanceledDecision has a decision canceled after its call was counted: the call was not made, and may be made later.
func TestCallOfACanceledDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.start(cortex.Config{
			Decider: relaying, Store: sluggish{w.store.(*memstore.Store)}, Policy: rulesOf(t, "rules: [{agents: [alpha], calls: {most: 1, per: 1h}, repeat: {within: 1h}}]"),
		})
		if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), userEvent("m1", "pay 5")); err != nil {
			t.Fatal(err)
		}
		pass(3500 * time.Millisecond) // in the last one of four readings
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), cancelEvent("x1", &transport.Cancel{Turn: turnOf("m1")})); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		w.wantAnswer("m1", "Canceled.")
		w.wantAllTasks(0)
		w.say("m2", "pay 5")
		pass(time.Minute)
		w.wantAllTasks(1)
	})
}

// counting is a store that conflicts, and keeps notes.
type counting struct {
	*memstore.Store
	log storage.Store
}

func (s counting) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	return s.log.Append(ctx, tenant, contextID, after, e)
}

// TestFailedCallOfALostDecision has the task fail of a decision that came second and was kept: its call may be made again.
func TestFailedCallOfALostDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0"}
		w.start(cortex.Config{Decider: relaying, Store: counting{w.store.(*memstore.Store), &conflicting{w.store, other}}, Policy: rulesOf(t, "rules: [{agents: [alpha], repeat: {within: 1h}}]")})
		w.say("m1", "pay 5")
		w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, "no"))
		w.wantAnswer("m1", "alpha FAILED no; ")
		w.say("m2", "pay 5")
		w.wantAllTasks(2)
	})
}

// waiting is a store whose notes of calls cannot be read the second time, until who reads gives up.
type waiting struct {
	counting
	reads int
}

func (s *waiting) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	if kind == storage.NoteCalls {
		if s.reads++; s.reads == 2 {
			<-ctx.Done()
			return storage.Note{}, ctx.Err()
		}
	}
	return s.counting.Note(ctx, tenant, kind, key)
}

// TestYesAtALostLease has an orchestrator lose a conversation while it counts the call of what somebody has just said yes to, and get it back: the yes
// holds.
func TestYesAtALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		m := &mover{bus: w.bus, handlers: map[string]transport.Handler{}, owner: "one"}
		w.start(cortex.Config{
			Decider: relaying, Transport: movable{w.bus, m, "one"}, Store: &waiting{counting: counting{w.store.(*memstore.Store), w.store}},
			Policy: rulesOf(t, "rules: [{agents: [alpha], confirm: true, calls: {most: 1, per: 1h}}]"),
		})
		pass(time.Second)
		if err := m.handle(t.Context(), userEvent("m1", "pay 5")); err != nil {
			t.Fatal(err)
		}
		yes := userEvent("m2", "yes")
		yes.Payload.(*a2a.Message).SetMeta(transport.MetaReplyTo, turnOf("m1"))
		ctx, lose := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, lose)
		if err := m.handle(ctx, yes); err == nil {
			t.Error("the yes was handled without a lease")
		}
		m.move("one")
		if err := m.handle(t.Context(), yes); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m2", "")
		w.wantAllTasks(1)
	})
}

// unheard is a store whose answer to the second append is lost.
type unheard struct {
	counting
	appends int
}

func (s *unheard) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	v, err := s.counting.Append(ctx, tenant, contextID, after, e)
	if s.appends++; s.appends == 2 && err == nil {
		return 0, transport.Temporary(errors.New("the connection is lost"))
	}
	return v, err
}

// TestFailedCallOfALostAppend has a task fail in an entry that is stored, which the orchestrator learns from the log only: its call may be made again.
func TestFailedCallOfALostAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.start(cortex.Config{
			Decider: relaying, Store: &unheard{counting: counting{w.store.(*memstore.Store), w.store}}, Policy: rulesOf(t, "rules: [{agents: [alpha], repeat: {within: 1h}}]"),
		})
		w.say("m1", "pay 5")
		w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, "no"))
		pass(time.Minute)
		w.wantAnswer("m1", "alpha FAILED no; ")
		w.say("m2", "pay 5")
		w.wantAllTasks(2)
	})
}

// breaking is a store in which the second count of a call fails.
type breaking struct {
	counting
	counts int
}

func (s *breaking) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if kind == storage.NoteCalls {
		if s.counts++; s.counts == 2 {
			return 0, transport.Temporary(errors.New("the connection is lost"))
		}
	}
	return s.counting.PutNote(ctx, tenant, kind, n)
}

// TestCallOfAnotherProcess has another process take an event over, and make its call, while this one fails to: the call still counts.
func TestCallOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.serveAgents()
		e := userEvent("m1", "pay 5")
		e.From = "user:ann"
		turn := transport.TurnID("", e.ContextID, e.From, e.ID)
		other := &conversation.Entry{
			Seq: 1, Time: time.Now(), Life: turn, Cause: e, Turn: turn,
			Decision: delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: "pay 5"}),
		}
		w.start(cortex.Config{
			Decider: relaying, Store: &breaking{counting: counting{w.store.(*memstore.Store), &conflicting{w.store, other}}},
			Policy: rulesOf(t, "rules: [{agents: [alpha], calls: {most: 1, per: 1h, by: all}, repeat: {within: 1h}}]"),
		})
		w.publish(e)
		w.wantAllTasks(1)
		w.asks("user:ann", "m2", "pay 5")
		if got := w.answerTo("user:ann", e.ContextID, "m2"); !strings.HasPrefix(got, "Nothing was done: alpha was asked for the same at ") {
			t.Errorf("answer %q", got)
		}
		w.wantAllTasks(1)
	})
}

// TestSameCallTwice has a decision ask for the same twice, which a rule forbids.
func TestSameCallTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twice := once(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: "pay 5"}, llm.Delegation{ID: "2", Agent: "alpha", Skill: "skill", Task: "pay  5"})
		w := newWorldOf(t, agentIDs)
		w.start(cortex.Config{Decider: twice, Policy: rulesOf(t, "rules: [{agents: [alpha], repeat: {within: 10m}}]")})
		w.say("m1", "pay 5, and pay 5")
		w.wantAnswer("m1", "Nothing was done: alpha would be asked for the same twice, and a rule allows no repetition within 10m0s.")
		w.wantAllTasks(0)
	})
}

// TestCallsCountOnce kills the orchestrator at each step of a turn with a limit of one call: it is counted once, and is no repetition of itself.
func TestCallsCountOnce(t *testing.T) {
	p := killedPattern{
		cortex.Config{Decider: relaying, Policy: rulesOf(t, "rules: [{agents: [alpha], calls: {most: 1, per: 1h}, repeat: {within: 1h}}]")},
		func(w *world) {}, "alpha COMPLETED did go; ", 1, 15, true,
	}
	for at := int64(1); ; at++ {
		survived := false
		synctest.Test(t, func(t *testing.T) { survived = p.killedAt(t, at) })
		if t.Failed() {
			t.Fatalf("killed at step %d", at)
		}
		if survived {
			if at < p.steps {
				t.Errorf("the turn had only %d steps: the fatal step is not everywhere", at)
			}
			return
		}
	}
}

// clinging is a store whose notes of calls are deleted when it is let go.
type clinging struct {
	*memstore.Store
	letGo chan struct{}
}

func (s clinging) DeleteNote(ctx context.Context, tenant, kind, key string, v conversation.Version) error {
	if kind == storage.NoteCalls {
		select {
		case <-s.letGo:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Store.DeleteNote(ctx, tenant, kind, key, v)
}

// TestOldCallsAreSwept checks that notes of calls go when they are of no use any more, and that nobody waits for that, since there may be very many.
func TestOldCallsAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.serveAgents()
		store := clinging{w.store.(*memstore.Store), make(chan struct{})}
		w.start(cortex.Config{Decider: relaying, Store: store, Policy: rulesOf(t, "rules: [{agents: [alpha], calls: {most: 9, per: 1s, by: all}, repeat: {within: 1s}}]")})
		notes := func() (n int) {
			for _, err := range store.Notes(t.Context(), "", storage.NoteCalls) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		w.say("m1", "pay 5")
		w.say("m2", "pay 6")
		if n := notes(); n != 3 {
			t.Fatalf("%d notes, want those of all calls and of each of the two", n)
		}
		pass(time.Hour)
		w.say("m3", "pay 7")
		w.wantAllTasks(3)
		w.wantAnswer("m3", "alpha COMPLETED did pay 7; ")
		close(store.letGo)
		pass(time.Hour)
		if n := notes(); n != 0 {
			t.Errorf("%d notes, want none: all are old", n)
		}
	})
}
