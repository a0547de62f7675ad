package cortex_test

import (
	"context"
	"slices"
	"strings"
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

// proven is a world with authenticated senders.
func proven(t *testing.T, d llm.Decider) *world {
	t.Helper()
	w := newWorld(t, d)
	w.restart(cortex.Config{Decider: d, Authenticated: true})
	return w
}

// from publishes an event in the conversation.
func (w *world) from(sender, id string, p transport.Payload) {
	w.t.Helper()
	w.publish(&transport.Event{ID: id, Time: time.Now(), From: sender, ContextID: theContext, Payload: p})
}

// shownTo returns the live answer to a sender's message.
func (w *world) shownTo(from, id string) string {
	for _, e := range w.watched() {
		m, ok := e.Payload.(*a2a.Message)
		if ok && transport.MetaString(m, transport.MetaRequester) == from && transport.MetaString(m, transport.MetaMessage) == id {
			return transport.Text(m.Parts)
		}
	}
	return ""
}

// TestConversationBelongsToWhoBeganIt checks that others speak in it only while it is shared with them, and agents while they work on a task in it.
func TestConversationBelongsToWhoBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := proven(t, named)
		refused := func(from, id string) {
			t.Helper()
			before := len(entries(t, w.store))
			w.sayAs(from, id, "let me in")
			want := "The conversation c1 belongs to user:ada, who can let you in: cortex conversations share c1 " +
				map[string]string{"user:bob": "bob", "user": "user", "beta": "agent:beta", "alpha": "agent:alpha"}[from]
			if got := w.shownTo(from, id); got != want || len(entries(t, w.store)) != before {
				t.Errorf("%s was answered %q, with %d entries more; want %q, with none", from, got, len(entries(t, w.store))-before, want)
			}
		}
		taken := func(from, id string) {
			t.Helper()
			w.sayAs(from, id, "hello")
			if got := w.shownTo(from, id); got != "you said hello" {
				t.Errorf("%s was answered %q", from, got)
			}
		}
		taken("user:ada", "m1")
		refused("user:bob", "m2")
		refused("user", "m3")
		refused("alpha", "m4")
		if got := w.tasksOf("alpha"); len(got) != 1 || !strings.HasPrefix(transport.Text(message(got[0]).Parts), "The conversation c1 belongs to") {
			t.Errorf("alpha got %v, want that it was refused", got)
		}
		w.from("user:bob", "s1", &transport.Share{With: []string{"user:bob"}})
		refused("user:bob", "m5")
		w.from("user:ada", "s2", &transport.Share{With: []string{"user:bob", "user:ada", "beta"}})
		w.from("user:ada", "s3", &transport.Share{With: []string{"beta"}}) // it is shared so already
		if conv := w.load(); conv.Owner != "user:ada" || !slices.Equal(conv.Shared, []string{"beta", "user:bob"}) {
			t.Errorf("it belongs to %s, shared with %q", conv.Owner, conv.Shared)
		}
		taken("user:bob", "m6")
		taken("beta", "m7")
		w.from("user:bob", "s4", &transport.Share{With: []string{"alpha"}})
		refused("alpha", "m8")
		w.sayAs("user:bob", "m9", "alpha: work")
		taken("alpha", "m10") // since it has a task
		work := w.load().Running()[0].ID
		w.publish(resultEvent("q1", "alpha", work, a2a.TaskStateInputRequired, "which?"))
		refused("alpha", "m15") // while it waits for the reply
		w.sayAs("user:bob", "m16", "alpha: more work")
		taken("alpha", "m17")
		w.from("user:ada", "s5", &transport.Share{Revoke: []string{"user:bob", "user:ada"}})
		refused("user:bob", "m11")
		taken("user:ada", "m12")
		w.finish("alpha", w.load().Running()[0].ID, "done") // its task is done
		if got := w.shownTo("user:bob", "m16"); got != "got alpha COMPLETED done; " {
			t.Errorf("bob was answered %q", got)
		}
		refused("alpha", "m13")
		w.from(transport.Cortex, "s6", &transport.Share{With: []string{"alpha"}}) // the operator
		taken("alpha", "m14")
		if n := len(w.decisions()); n != 11 {
			t.Errorf("%d decisions, want 11: none for what was refused", n)
		}
		w.wantFold()
	})
}

// TestEverybodySpeaksWithoutKeys checks that a conversation belongs to nobody when senders are not authenticated.
func TestEverybodySpeaksWithoutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, named)
		w.say("m1", "hello")
		for _, from := range []string{"user:bob", "alpha"} {
			w.sayAs(from, "m2", "hello")
			if got := w.shownTo(from, "m2"); got != "you said hello" {
				t.Errorf("%s was answered %q", from, got)
			}
		}
	})
}

// TestStrangersCancelNothing checks that a sender who may not speak in a conversation can only cancel their own requests in it, whatever they
// name, and that the operator can cancel everything.
func TestStrangersCancelNothing(t *testing.T) {
	for name, test := range map[string]struct {
		from   string
		cancel func(w *world) *transport.Cancel
		open   []string // turns that are open before
	}{
		"everything":         {"user:bob", func(*world) *transport.Cancel { return &transport.Cancel{} }, []string{"m1", "m2"}},
		"a turn":             {"user:bob", func(*world) *transport.Cancel { return &transport.Cancel{Turn: adas("m1")} }, []string{"m1", "m2"}},
		"a task":             {"user:bob", func(w *world) *transport.Cancel { return &transport.Cancel{TaskID: w.onlyTask("alpha")} }, []string{"m1", "m2"}},
		"their own turn":     {"user:bob", func(*world) *transport.Cancel { return &transport.Cancel{Turn: bobs("m2")} }, []string{"m1"}},
		"their own task":     {"user:bob", func(w *world) *transport.Cancel { return &transport.Cancel{TaskID: w.onlyTask("beta")} }, []string{"m1"}},
		"the owner":          {"user:ada", func(*world) *transport.Cancel { return &transport.Cancel{Turn: bobs("m2")} }, []string{"m1"}},
		"whoever runs it":    {transport.Cortex, func(*world) *transport.Cancel { return &transport.Cancel{} }, nil},
		"an agent":           {"gamma", func(*world) *transport.Cancel { return &transport.Cancel{} }, []string{"m1", "m2"}},
		"an agent at a task": {"alpha", func(w *world) *transport.Cancel { return &transport.Cancel{TaskID: w.onlyTask("alpha")} }, []string{"m1", "m2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := proven(t, named)
				w.sayAs("user:ada", "m1", "alpha: work")
				w.from("user:ada", "s1", &transport.Share{With: []string{"user:bob"}})
				w.sayAs("user:bob", "m2", "beta: work")
				w.from("user:ada", "s2", &transport.Share{Revoke: []string{"user:bob"}})
				w.from(test.from, "x", test.cancel(w))
				var open []string
				for _, turn := range w.load().Turns {
					if turn.Open() {
						open = append(open, turn.Message)
					}
				}
				if !slices.Equal(open, test.open) {
					t.Errorf("open are %q, want %q", open, test.open)
				}
				w.wantFold()
			})
		})
	}
}

func adas(id string) string { return transport.TurnID("", theContext, "user:ada", id) }
func bobs(id string) string { return transport.TurnID("", theContext, "user:bob", id) }

// TestStrangersInterruptNothing checks that they cannot end a running decision either, or keep the owner from ending a later one.
func TestStrangersInterruptNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Second):
				return respond("ok"), nil
			}
		})
		w := proven(t, d)
		interrupt := func(from, turn string) {
			t.Helper()
			e := &transport.Event{ID: "x-" + from + turn, From: from, ContextID: theContext, Payload: &transport.Cancel{Turn: turn}}
			if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), e); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		w.sayAs("user:ada", "m1", "hello")
		interrupt("user:bob", adas("m1"))
		interrupt("user:bob", adas("m2"))
		interrupt("user:ada", adas("m2"))
		interrupt("user:bob", adas("m3"))
		w.sayAs("user:ada", "m2", "hello")
		w.sayAs("user:ada", "m3", "hello")
		pass(3 * time.Second)
		for id, want := range map[string]string{"m1": "ok", "m2": conversation.AnswerCanceled, "m3": "ok"} {
			if got := w.shownTo("user:ada", id); got != want {
				t.Errorf("%s is answered %q, want %q", id, got, want)
			}
		}
	})
}

// TestStaleCacheRefusesNobody checks that a stale cache does not refuse an event in a conversation that meanwhile has another owner, or was
// shared through another replica.
func TestStaleCacheRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := proven(t, named)
		w.sayAs("user:ada", "m1", "hello")
		conv := w.load()
		e := &conversation.Entry{
			Seq: conv.Seq + 1, Time: time.Now(), Cause: &transport.Event{
				ID: "s", From: "user:ada", ContextID: theContext, Payload: &transport.Share{With: []string{"user:bob"}},
			},
		}
		if _, err := w.store.Append(t.Context(), "", theContext, conv.Version, e); err != nil {
			t.Fatal(err)
		}
		w.sayAs("user:bob", "m2", "hello")
		if got := w.shownTo("user:bob", "m2"); got != "you said hello" {
			t.Errorf("bob was answered %q", got)
		}
	})
}

// TestRefusedIsNoDeadLetter checks that a refused sender finds the reason later too, and that a flood of refusals displaces no dead letters.
func TestRefusedIsNoDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := proven(t, named)
		w.sayAs("user:ada", "m1", "hello")
		w.sayAs("user:bob", "m2", "hello")
		if got := w.deadLetters(); len(got) != 0 {
			t.Errorf("dead letters %q, want none", got)
		}
		m, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, "user:bob", "m2")
		if err != nil || !ok || !strings.HasPrefix(transport.Text(m.Parts), "The conversation c1 belongs to user:ada") {
			t.Errorf("RefusalOf() = %v, %v, %v", m, ok, err)
		}
	})
}
