package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// slowNotes counts accesses to notes of evidence, and can block writes.
type slowNotes struct {
	*memstore.Store
	read, written, erased atomic.Int64
	hold                  atomic.Pointer[chan struct{}] // nil blocks nothing
}

func (s *slowNotes) EraseNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	s.erased.Add(1)
	return s.Store.EraseNote(ctx, tenant, kind, n)
}

func (s *slowNotes) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	if kind == storage.NoteEvidence {
		s.read.Add(1)
	}
	return s.Store.Note(ctx, tenant, kind, key)
}

func (s *slowNotes) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if c := s.hold.Load(); c != nil {
		select {
		case <-*c:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.written.Add(1)
	return s.Store.PutNote(ctx, tenant, kind, n)
}

// learningWorld is a world whose router learns, with its store and its index of the agents.
func learningWorld(t *testing.T) (*world, *slowNotes, *router.Index) {
	w := newWorld(t, simple(asks))
	w.diligent = true
	w.stop()
	store := &slowNotes{Store: memstore.New()}
	w.store = store
	return w, store, w.replica()
}

// replica starts another orchestrator, and returns its index.
func (w *world) replica() *router.Index {
	index := router.New(nil)
	for _, a := range offered("") {
		index.Put(a.ID, a.Card)
	}
	w.start(cortex.Config{Decider: simple(asks), Router: index})
	synctest.Wait()
	return index
}

// scoreIn returns how well alpha fits text.
func scoreIn(index *router.Index, text string) float64 {
	for _, h := range index.Search(text, nil) {
		if h.ID == "alpha" {
			return h.Score
		}
	}
	return 0
}

// TestLearningIsGathered checks that the evidence of many turns in a second costs one write for each agent, that none of it is lost, and
// that an orchestrator does not read its own writes.
func TestLearningIsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := learningWorld(t)
		var want []string
		for i := range 60 {
			want = append(want, fmt.Sprintf("alpha: thing number %d", i))
			w.say(fmt.Sprint("m", i), want[i])
		}
		if n := store.written.Load(); n != 1 {
			t.Errorf("%d notes are written at once, want the first", n)
		}
		pass(time.Second)
		if r, n := store.read.Load(), store.written.Load(); n != 2 || r != 2 {
			t.Errorf("%d notes are written after a second, and %d read, want two", n, r)
		}
		w.say("another", "beta: one more thing")
		w.say("and-another", "beta: yet one more thing")
		pass(time.Second)
		if n := store.written.Load(); n != 3 {
			t.Errorf("%d notes are written after another second, want 3", n)
		}
		if d := cmp.Diff(map[string]int{"alpha": 60, "beta": 2}, lengths(w.learned())); d != "" {
			t.Errorf("what was learned differs (-want +got):\n%s", d)
		}
		if n := store.erased.Load(); n != 0 {
			t.Errorf("%d notes are erased, want none: that is for what is deleted", n)
		}
	})
}

func lengths(m map[string][]string) map[string]int {
	n := map[string]int{}
	for k, v := range m {
		n[k] = len(v)
	}
	return n
}

// TestCorrectedBeforeItIsWritten checks that evidence taken back within a second is never written.
func TestCorrectedBeforeItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := learningWorld(t)
		w.say("m1", "alpha: the first thing")
		w.say("m2", "alpha: the second thing")
		w.say("m3", "no, that was for beta")
		w.wantLearned(map[string][]string{"alpha": {"alpha: the first thing"}})
	})
}

// TestLearnedAtTheEnd checks that waiting evidence is written when Run ends, and that a hanging store does not delay that
// forever.
func TestLearnedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := learningWorld(t)
		w.say("m1", "alpha: the first thing")
		w.say("m2", "alpha: the second thing")
		w.stop()
		if d := cmp.Diff(map[string]int{"alpha": 2}, lengths(w.learned())); d != "" {
			t.Errorf("what was learned differs (-want +got):\n%s", d)
		}
		w.replica()
		never := make(chan struct{})
		store.hold.Store(&never)
		w.say("m3", "alpha: the third thing")
		w.say("m4", "beta: the fourth thing")
		began := time.Now()
		w.stop()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("Run ended %v after its context, want soon", took)
		}
	})
}

// TestLearningIsShared checks that a replica learns what another one has learned, without being asked.
func TestLearningIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, one := learningWorld(t)
		two := w.replica()
		before := scoreIn(one, "walk the elephants")
		w.say("m1", "alpha: walk the elephants")
		pass(time.Second)
		if a, b := scoreIn(one, "walk the elephants"), scoreIn(two, "walk the elephants"); a <= before || a != b {
			t.Errorf("the score is %v in one and %v in the other, want the same, and more than %v", a, b, before)
		}
		if r := store.read.Load(); r != 2 {
			t.Errorf("the note was read %d times, want once by each", r)
		}
	})
}

// forget erases a conversation as `cortex conversations delete` does.
func (w *world) forget(contextID string) []string {
	w.t.Helper()
	if err := w.store.(storage.Eraser).Erase(w.t.Context(), "", contextID); err != nil {
		w.t.Fatal(err)
	}
	changed, err := learn.Forget(w.t.Context(), w.store.(storage.Notes), "", contextID)
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.bus.Publish(w.t.Context(), transport.Control("", transport.Cortex), &transport.Event{
		ID: "forget-" + contextID, Time: time.Now(), From: "user", ContextID: contextID, Payload: &transport.Forget{},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return changed
}

// sayIn says something in the conversation with this name.
func (w *world) sayIn(contextID, id, text string) {
	w.t.Helper()
	e := userEvent(id, text)
	e.ContextID, e.Payload.(*a2a.Message).ContextID = contextID, contextID
	w.publish(e)
}

// TestForgetConversation checks that the words of an erased conversation leave the evidence: what is written, what waits to be
// written, what is being written at that moment, and what the router has learned. Those of other conversations stay.
func TestForgetConversation(t *testing.T) {
	for name, at := range map[string]func(w *world, store *slowNotes) []string{
		"written": func(w *world, _ *slowNotes) []string {
			pass(time.Second)
			return w.forget(theContext)
		},
		"waiting": func(w *world, _ *slowNotes) []string { return w.forget(theContext) },
		"being written": func(w *world, store *slowNotes) []string {
			hold := make(chan struct{})
			store.hold.Store(&hold)
			pass(time.Second)
			store.hold.Store(nil)
			changed := w.forget(theContext)
			synctest.Wait()
			close(hold)
			return changed
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, store, index := learningWorld(t)
				w.sayIn("other", "m1", "alpha: the first thing")
				w.say("m2", "alpha: walk the elephants")
				w.say("m3", "beta: walk the tigers")
				want := map[string][]string(nil)
				if name == "written" {
					want = map[string][]string{"changed": {"alpha", "beta"}}
				}
				if d := cmp.Diff(want["changed"], at(w, store)); d != "" {
					t.Errorf("ForgetConversation differs (-want +got):\n%s", d)
				}
				w.wantLearned(map[string][]string{"alpha": {"alpha: the first thing"}})
				if n, want := store.erased.Load(), map[string]int64{"written": 2, "being written": 2}[name]; n != want {
					t.Errorf("%d notes were erased, want %d: those that had it", n, want)
				}
				if got, want := scoreIn(index, "walk the elephants"), scoreIn(w.replica(), "walk the elephants"); got != want {
					t.Errorf("the score is %v, want %v as in one that begins now", got, want)
				}
				w.say("m4", "alpha: the last thing") // it begins anew
				w.wantLearned(map[string][]string{"alpha": {"alpha: the first thing", "alpha: the last thing"}})
			})
		})
	}
}

// busyNotes changes each note just before it is written, like another process.
type busyNotes struct {
	*memstore.Store
	times int
}

func (s *busyNotes) EraseNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if s.times--; s.times >= 0 {
		is, err := s.Note(ctx, tenant, kind, n.Key)
		if err != nil {
			return 0, err
		}
		if _, err := s.Store.PutNote(ctx, tenant, kind, is); err != nil {
			return 0, err
		}
	}
	return s.Store.EraseNote(ctx, tenant, kind, n)
}

func TestForgetConversationWhileOthersLearn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, _ := learningWorld(t)
		w.say("m1", "alpha: the first thing")
		pass(time.Second)
		w.stop()
		if _, err := learn.Forget(t.Context(), &busyNotes{store.Store, 1000}, "", theContext); !errors.Is(err, storage.ErrConflict) ||
			!strings.Contains(err.Error(), "alpha") {
			t.Errorf("ForgetConversation = %v, want a conflict at alpha", err)
		}
		changed, err := learn.Forget(t.Context(), &busyNotes{store.Store, 3}, "", theContext)
		if err != nil || !cmp.Equal(changed, []string{"alpha"}) {
			t.Errorf("ForgetConversation = %v, %v, want alpha", changed, err)
		}
		if changed, err = learn.Forget(t.Context(), store, "", theContext); len(changed) > 0 || err != nil {
			t.Errorf("ForgetConversation again = %v, %v, want nothing", changed, err)
		}
		w.wantLearned(map[string][]string{})
	})
}

// TestForgetConversationOnNATS checks the same for two orchestrators on a server.
func TestForgetConversationOnNATS(t *testing.T) {
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	bus, err := nats.Dial(t.Context(), &nats.Options{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	store, err := jetstore.Open(t.Context(), bus.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, bus: bus, store: store, work: map[string][]*transport.Event{}, diligent: true}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	inbox, err := bus.Subscribe(ctx, transport.Inbox("", "alpha"), nil)
	if err != nil {
		t.Fatal(err)
	}
	go inbox.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		w.do("alpha", e)
		return nil
	})
	var indexes []*router.Index
	for range 2 {
		index := router.New(nil)
		for _, a := range offered("") {
			index.Put(a.ID, a.Card)
		}
		indexes = append(indexes, index)
		w.start(cortex.Config{Decider: simple(asks), Router: index})
	}
	know := func(text string) int {
		n := 0
		for _, index := range indexes {
			if scoreIn(index, text) >= router.Fits/4 {
				n++
			}
		}
		return n
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		poll := time.NewTicker(10 * time.Millisecond)
		defer poll.Stop()
		late := time.After(patience)
		for !ok() {
			select {
			case <-poll.C:
			case <-late:
				t.Fatalf("never: %s; what is learned is %v", what, w.learned())
			}
		}
	}
	tell := func(contextID, id, text string) {
		t.Helper()
		e := userEvent(id, text)
		e.ContextID, e.Payload.(*a2a.Message).ContextID = contextID, contextID
		if err := bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
			t.Fatal(err)
		}
	}
	tell("other", "m1", "alpha: water tulips daily")
	tell(theContext, "m2", "alpha: walk elephants slowly")
	until("both are learned by both", func() bool {
		return know("water tulips daily") == 2 && know("walk elephants slowly") == 2 && len(w.learned()["alpha"]) == 2
	})
	if changed := w.forget(theContext); !cmp.Equal(changed, []string{"alpha"}) {
		t.Errorf("ForgetConversation = %v, want alpha", changed)
	}
	until("both have forgotten", func() bool { return know("walk elephants slowly") == 0 })
	if d := cmp.Diff(map[string][]string{"alpha": {"alpha: water tulips daily"}}, w.learned()); d != "" || know("water tulips daily") != 2 {
		t.Errorf("what was learned elsewhere is gone, too (-want +got):\n%s", d)
	}
}
