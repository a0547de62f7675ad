package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// unreadable returns an event with an unreadable payload of this kind.
func unreadable(id, from, kind string, task a2a.TaskID) *transport.Event {
	return &transport.Event{
		ID: id, Time: time.Now(), From: from, ContextID: theContext, TaskID: task,
		Payload: &transport.Opaque{Kind: kind, Version: transport.PayloadVersion, Data: []byte(`{"status":NaN`)},
	}
}

const cannotTake = "Cortex cannot use what the agent sent: it cannot be read: "

// deadLetters returns the reasons of the dead letters.
func (w *world) deadLetters() []string {
	w.t.Helper()
	var reasons []string
	for d, err := range w.bus.(transport.DeadLetters).DeadLetters(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		reasons = append(reasons, d.Reason)
	}
	return reasons
}

// TestUnreadableResult has an agent send an unreadable result: its turn goes on at once, with the reason.
func TestUnreadableResult(t *testing.T) {
	for _, kind := range []string{"task", "status-update", "artifact-update", "message"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, once(toAlpha))
				w.say("m1", "go")
				task := w.onlyTask("alpha")
				for _, other := range []string{"beta", "user"} { // events of others about the task
					w.publish(unreadable("x-"+other, other, kind, task))
				}
				w.wantAnswer("m1", "")
				began := time.Now()
				w.publish(unreadable("r1", "alpha", kind, task))
				if got := w.answers()["m1"]; !strings.HasPrefix(got, "alpha FAILED "+cannotTake) || time.Since(began) != 0 {
					t.Errorf("answer %q after %v, want at once that the result cannot be read", got, time.Since(began))
				}
				if got := w.lines(a2a.TaskStateFailed); len(got) != 1 || !strings.HasPrefix(got[0], cannotTake) {
					t.Errorf("people were shown %q", got)
				}
				if got := w.deadLetters(); len(got) != 3 {
					t.Errorf("dead letters %q, want 3", got)
				}
				if n := len(entries(t, w.store)); n != 2 {
					t.Errorf("%d entries, want 2", n)
				}
				w.wantFold()
			})
		})
	}
}

// TestResultWithoutItsID has an agent send events about a task without a readable id or kind. An event of an unknown kind
// is no result.
func TestResultWithoutItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		task := w.onlyTask("alpha")
		for _, e := range []*transport.Event{unreadable("", "alpha", "hologram", task), unreadable("", "beta", "task", task)} {
			if err := w.orch.GivenUp(t.Context(), e, errors.New("it has no id")); err != nil {
				t.Fatal(err)
			}
		}
		w.wantAnswer("m1", "")
		for range 2 {
			if err := w.orch.GivenUp(t.Context(), unreadable("", "alpha", "", task), errors.New("it has no id")); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "alpha FAILED Cortex cannot use what the agent sent: it has no id") {
			t.Errorf("answer %q", got)
		}
		if n := len(entries(t, w.store)); n != 2 {
			t.Errorf("%d entries, want 2", n)
		}
	})
}

// TestUnreadableResultIsTriedAgain has the agent's card allow retries.
func TestUnreadableResultIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.restart(cortex.Config{Decider: once(toAlpha), Agents: specified(retrying(1))})
		w.say("m1", "go")
		w.publish(unreadable("r1", "alpha", "task", w.onlyTask("alpha")))
		tasks := w.tasksOf("alpha")
		if len(tasks) != 2 {
			t.Fatalf("alpha got %d tasks, want the same once more", len(tasks))
		}
		w.publish(resultEvent("r2", "alpha", tasks[1].TaskID, a2a.TaskStateCompleted, "A"))
		w.wantAnswer("m1", "alpha COMPLETED A; ")
		w.wantFold()
	})
}

// TestUnreadableResultAndKilled kills the orchestrator before it can report that the result is unreadable: the next one reports it, once,
// and only then it is a dead letter.
func TestUnreadableResultAndKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		dumb := &mute{Transport: w.bus}
		w.restart(cortex.Config{Transport: dumb, Decider: once(toAlpha)})
		w.publish(unreadable("r1", "alpha", "task", w.onlyTask("alpha")))
		pass(time.Minute)
		if got := w.deadLetters(); len(got) != 0 || len(entries(t, w.store)) != 1 {
			t.Fatalf("dead letters %q, %d entries, want none, and one", got, len(entries(t, w.store)))
		}
		if got := w.orch.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "event r1 of alpha in conversation c1 has failed ") {
			t.Errorf("trouble %q, want that of r1", got)
		}
		w.restart(cortex.Config{Decider: once(toAlpha)})
		pass(time.Second)
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "alpha FAILED "+cannotTake) {
			t.Errorf("answer %q", got)
		}
		if got := w.deadLetters(); len(got) != 1 || len(entries(t, w.store)) != 2 {
			t.Errorf("dead letters %q, %d entries, want one, and 2", got, len(entries(t, w.store)))
		}
		w.wantFold()
	})
}

// deaf is a transport that loses live events.
type deaf struct{ transport.Transport }

func (d deaf) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t.Kind == transport.KindLive {
		return nil
	}
	return d.Transport.Publish(ctx, t, e)
}

type notes = storage.Notes // so that the field does not hide the method

// fragile is a store that panics at an event, and refuses large entries.
type fragile struct {
	storage.Store
	notes
	tries atomic.Int32
	away  atomic.Bool // the notes are unavailable
}

func (s *fragile) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	switch {
	case strings.HasPrefix(e.Cause.ID, "bad"):
		s.tries.Add(1)
		panic("cannot bear " + e.Cause.ID)
	case strings.HasPrefix(e.Cause.ID, "large"):
		return 0, transport.ErrTooLarge
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

func (s *fragile) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	if s.away.Load() {
		return storage.Note{}, transport.ErrUnavailable
	}
	return s.notes.Note(ctx, tenant, kind, key)
}

// TestRefusalIsKept has messages refused while nobody watches the live topic: their senders find the answer later, and
// nobody else does.
func TestRefusalIsKept(t *testing.T) {
	of := func(e *transport.Event) *transport.Event { e.ContextID = theContext; return e }
	tests := map[string]struct {
		event   *transport.Event
		want    string
		letters int // dead
	}{
		"it cannot be read":   {unreadable("m1", "user", "message", ""), "Cortex cannot read this message", 1},
		"a newer kind":        {of(&transport.Event{ID: "m1", From: "user", Payload: &transport.Opaque{Kind: "hologram", Version: "7"}}), "does not know this kind", 1},
		"it is too large":     {userEvent("large", "x"), "The message is too large to be kept.", 0},
		"Cortex cannot do it": {userEvent("bad", "x"), "could not handle this message and gave it up", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := simple(func(*llm.Turn) *llm.Decision { return respond("ok") })
				w := newWorld(t, d)
				s := &fragile{Store: w.store, notes: w.store.(storage.Notes)}
				s.away.Store(true)
				w.restart(cortex.Config{Decider: d, Store: s, Transport: deaf{w.bus}})
				e := *test.event
				e.Time = time.Now()
				w.publish(&e)
				w.say("m2", "behind it")
				pass(time.Minute)
				if got := w.deadLetters(); len(got) != 0 {
					t.Fatalf("dead letters %q before anybody is told", got)
				}
				s.away.Store(false)
				pass(time.Minute)
				if got := w.deadLetters(); len(got) != test.letters {
					t.Errorf("dead letters %q, want %d", got, test.letters)
				}
				w.wantAnswer("m2", "ok")
				m, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, "user", e.ID)
				if err != nil || !ok {
					t.Fatalf("RefusalOf() = %v, %v, %v", m, ok, err)
				}
				if text := transport.Text(m.Parts); !strings.Contains(text, test.want) || m.Metadata[transport.MetaFailed] != true || m.Metadata[transport.MetaMessage] != e.ID {
					t.Errorf("refused with %q, %v; want %q", text, m.Metadata, test.want)
				}
				for _, other := range [][2]string{{"user:eve", e.ID}, {"user", "m2"}} {
					if m, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, other[0], other[1]); ok || err != nil {
						t.Errorf("RefusalOf(%q) = %v, %v, want none", other, m, err)
					}
				}
				trouble := w.orch.Trouble()
				if test.letters > 0 && (len(trouble) != 1 || !strings.HasPrefix(trouble[0], "events given up since the start: 1, see cortex dead; the last one, event "+e.ID)) {
					t.Errorf("trouble %q", trouble)
				}
				if got := w.orch.Stats().Refused; got != 1 {
					t.Errorf("%d events refused, want 1", got)
				}
			})
		})
	}
}

// TestRefusalsAreBounded checks that the stored refusals are bounded, and include the newest.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(*llm.Turn) *llm.Decision { return respond("ok") })
		w := newWorld(t, d)
		for i := range 3000 { // more people than notes
			if err := w.orch.KeepRefusal(t.Context(), "user:"+strconv.Itoa(i), "m"); err != nil {
				t.Fatal(err)
			}
		}
		const n = 200 // more than a note holds
		for i := range n {
			if err := w.orch.KeepRefusal(t.Context(), "user", "m"+strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		notes, most := 0, 0
		for note, err := range w.store.(storage.Notes).Notes(t.Context(), "", storage.NoteRefusal) {
			if err != nil {
				t.Fatal(err)
			}
			notes, most = notes+1, max(most, strings.Count(string(note.Value), `"of"`))
		}
		if notes > 1024 || most != 64 {
			t.Errorf("%d notes, with up to %d refusals, want at most 1024, with 64", notes, most)
		}
		if _, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, "user", "m"+strconv.Itoa(n-1)); !ok || err != nil {
			t.Errorf("the last one: %v, %v", ok, err)
		}
	})
}

// TestRefusalsOfOthersAreKept has one sender refused again and again: refusals of others in the same note are still there.
func TestRefusalsOfOthersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for i := range 2000 { // more than notes: some share the flooder's
			if err := w.orch.KeepRefusal(t.Context(), "user:"+strconv.Itoa(i), "m"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 500 {
			if err := w.orch.KeepRefusal(t.Context(), "user:flood", "m"+strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2000 {
			if _, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, "user:"+strconv.Itoa(i), "m"); !ok || err != nil {
				t.Errorf("the refusal of user %d: %v, %v, want it kept", i, ok, err)
			}
		}
	})
}

// TestUnreadableResultWithoutTask has an agent send an unreadable event about a task that nothing else names: it is the task whose
// id the event contains, or the agent's only one.
func TestUnreadableResultWithoutTask(t *testing.T) {
	for name, c := range map[string]struct {
		kind, data string // %s: the task
		want       bool
	}{
		"the only task":            {"task", `{"status":NaN`, true},
		"named, as a task":         {"task", `{"id":"%s","status":NaN`, true},
		"named, as a message":      {"message", `{"taskId":"%s","parts":[null`, true},
		"a message, which may ask": {"message", `{"parts":[null`, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, once(toAlpha))
				w.say("m1", "go")
				e := unreadable("r1", "alpha", c.kind, "")
				e.Payload.(*transport.Opaque).Data = []byte(strings.ReplaceAll(c.data, "%s", string(w.onlyTask("alpha"))))
				w.publish(e)
				if got := w.answers()["m1"]; strings.HasPrefix(got, "alpha FAILED "+cannotTake) != c.want {
					t.Errorf("answer %q, want the task failed: %v", got, c.want)
				}
			})
		})
	}
}

// TestPanicIsGivenUp has a result whose handling panics: later events are handled, and its turn is told.
func TestPanicIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		s := &fragile{Store: w.store, notes: w.store.(storage.Notes)}
		w.restart(cortex.Config{Decider: once(toAlpha), Store: s})
		w.say("m1", "go")
		w.publish(resultEvent("bad", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "A"))
		pass(time.Minute)
		if n := s.tries.Load(); n != transport.MaxFailures {
			t.Errorf("handled %d times, want %d", n, transport.MaxFailures)
		}
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "alpha FAILED Cortex cannot use what the agent sent: it failed 8 times, at last: panic: cannot bear bad") {
			t.Errorf("answer %q", got)
		}
		if got := w.deadLetters(); len(got) != 1 || !strings.Contains(got[0], "panic: cannot bear bad") {
			t.Errorf("dead letters %q, want one", got)
		}
	})
}

// TestResultTooLargeToKeep has an agent send a result that the log cannot hold: its turn is told at once.
func TestResultTooLargeToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.restart(cortex.Config{Decider: once(toAlpha), Store: &fragile{Store: w.store, notes: w.store.(storage.Notes)}})
		w.say("m1", "go")
		w.publish(resultEvent("large", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "A"))
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "alpha FAILED Cortex cannot use what the agent sent: ") || !strings.Contains(got, "too large to be kept") {
			t.Errorf("answer %q", got)
		}
	})
}

// TestAgentIsRefused has an agent send an unreadable request: it gets a failed answer.
func TestAgentIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.publish(unreadable("m1", "gamma", "message", ""))
		got := w.tasksOf("gamma")
		if len(got) != 1 {
			t.Fatalf("gamma got %d events, want the answer", len(got))
		}
		m := message(got[0])
		if m.Role != a2a.MessageRoleAgent || m.Metadata[transport.MetaFailed] != true || m.Metadata[transport.MetaMessage] != "m1" {
			t.Errorf("gamma got %q with %v", transport.Text(m.Parts), m.Metadata)
		}
		for _, quiet := range []*transport.Event{unreadable("x1", "gamma", "cancel", ""), unreadable("x2", "gamma", "hologram", ""), unreadable("x3", "cortex", "task", "t1")} {
			w.publish(quiet)
		}
		if n := len(w.tasksOf("gamma")); n != 1 || len(w.deadLetters()) != 4 {
			t.Errorf("gamma got %d events, and there are %d dead letters; want 1 and 4", n, len(w.deadLetters()))
		}
	})
}

// TestStoreIsAway has the store fail for long, with its own errors: nothing is given up, and Trouble shows it.
func TestStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(*llm.Turn) *llm.Decision { return respond("ok") })
		w := newWorld(t, d)
		s := w.fill(cortex.Config{Decider: d})
		w.say("m1", "hello")
		pass(time.Hour)
		if got := w.orch.Trouble(); len(got) != 1 || !strings.Contains(got[0], errFull.Error()) {
			t.Errorf("trouble %q, want that the disk is full", got)
		}
		s.room.Store(true)
		pass(2 * time.Minute)
		w.wantAnswer("m1", "ok")
		if got := w.orch.Trouble(); len(got) != 0 || len(w.deadLetters()) != 0 {
			t.Errorf("trouble %q, dead letters %q", got, w.deadLetters())
		}
	})
}

// TestRefusedAtOnce has many messages of one sender refused at the same moment: each sender gets each answer, however slow the store is.
func TestRefusedAtOnce(t *testing.T) {
	const n = 200 // more than a note holds
	for name, conversationOf := range map[string]func(i int) string{
		"in one conversation": func(int) string { return theContext },
		"in many":             func(i int) string { return "c" + strconv.Itoa(i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				var r storage.Refusals
				var g errgroup.Group
				for i := range n {
					g.Go(func() error {
						e := &transport.Event{ID: "m" + strconv.Itoa(i), From: "user", ContextID: conversationOf(i)}
						return r.Keep(t.Context(), slowRefusals{store}, "", e, "no", time.Now())
					})
				}
				if err := g.Wait(); err != nil {
					t.Fatal(err)
				}
				kept := 0
				for i := range n {
					_, ok, err := storage.RefusalOf(t.Context(), store, "", conversationOf(i), "user", "m"+strconv.Itoa(i))
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						kept++
					}
				}
				if want := map[string]int{"in one conversation": 64, "in many": n}[name]; kept != want {
					t.Errorf("%d of %d refusals are kept, want %d", kept, n, want)
				}
			})
		})
	}
}

// slowRefusals is a store that takes a second to read a note: whoever reads it meanwhile reads the same.
type slowRefusals struct{ *memstore.Store }

func (s slowRefusals) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	n, err := s.Store.Note(ctx, tenant, kind, key)
	time.Sleep(time.Second)
	return n, err
}

// TestResultThatDoesNotFit has an agent send results that the store does not take, as when redacting made them larger: each turn is told, and the agent has
// a share of the dead letters.
func TestResultThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.restart(cortex.Config{Decider: once(toAlpha), Store: &fragile{Store: w.store, notes: w.store.(storage.Notes)}})
		text := strings.Repeat("x", 3<<20)
		for i := range 7 {
			id := fmt.Sprint("m", i)
			w.say(id, "go")
			w.publish(resultEvent("large-"+id, "alpha", w.tasksOf("alpha")[i].TaskID, a2a.TaskStateCompleted, text))
			if got := w.answers()[id]; !strings.Contains(got, "The message is too large to be kept.") {
				t.Errorf("the answer is %.200q", got)
			}
		}
		letters := 0
		for _, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			letters++
		}
		if letters != 5 {
			t.Errorf("%d dead letters, want the 5 that fit into 16 MiB", letters)
		}
	})
}
