package learn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestWhatWaitsIsBounded checks that the memory is bounded while the store hangs: with many lessons about one agent, about as many agents, and with
// many changed notes.
func TestWhatWaitsIsBounded(t *testing.T) {
	const n = 10_000
	type store = storage.Notes // so that the field does not hide the method
	s := New(Config{Notes: struct{ store }{}, Router: router.New(nil), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	for i := range n {
		s.offer("one", &lesson{learned: []router.Evidence{{ID: fmt.Sprint(i)}}})
	}
	if s.size != router.MaxEvidence {
		t.Errorf("%d lessons of one agent wait, want %d", s.size, router.MaxEvidence)
	}
	for i := range n {
		s.offer(fmt.Sprint(i), &lesson{wrong: []string{"x"}})
		s.Forget(&transport.Event{ID: fmt.Sprint(i)}, &transport.Forget{AgentID: fmt.Sprint(i)})
		s.Forget(&transport.Event{ID: fmt.Sprint(i), ContextID: fmt.Sprint(i)}, &transport.Forget{})
	}
	s.Forget(&transport.Event{ID: "e"}, &transport.Forget{AgentID: "no id"})
	sum := 0
	for _, p := range s.pending {
		sum += p.size()
	}
	if changed := len(s.changed) + len(s.erased); sum != maxLessons || changed != maxLessons {
		t.Errorf("%d lessons and %d changes wait, want %d of each", sum, changed, maxLessons)
	}
}

// TestWhatIsNotUsedIsSaid: when there is more evidence than the router has room for, it uses the newest, forgets what is erased, and the log says so.
func TestWhatIsNotUsedIsSaid(t *testing.T) {
	var log strings.Builder
	index := router.New(&router.Options{MaxItems: 3})
	s := New(Config{Notes: memstore.New(), Transport: memory.New(nil), Router: index, Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	evidence := func(agent string, many int) (all []router.Evidence) {
		for i := range many {
			all = append(all, router.Evidence{ID: fmt.Sprint(agent, i), Text: "sing a song", Time: time.Unix(int64(i), 0), Conversation: fmt.Sprint(i)})
		}
		return all
	}
	s.teach("anna", evidence("anna", 2), 1)
	if log.Len() > 0 {
		t.Errorf("the log says %s", &log)
	}
	s.teach("bert", evidence("bert", 4), 1)
	s.teach("bert", evidence("bert", 5), 2)
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "agent=bert") {
		t.Errorf("the log says %s, want one line about bert", &log)
	}
	if index.Learn("bert", evidence("bert", 2)) || !index.Learn("bert", evidence("bert", 1)) {
		t.Error("the router has room for more, or less, than one item")
	}
	for i := range maxRecords + 3 {
		s.note(fmt.Sprint(i), outcome{"sing", Record{Done: 1}})
	}
	if n := strings.Count(log.String(), "is not noted"); n != 1 {
		t.Errorf("the log says %d times that agents are not noted, want once", n)
	}
}

// away is a store whose notes cannot be read for a while.
type away struct {
	*memstore.Store
	is atomic.Bool
}

func (a *away) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	if a.is.Load() {
		return storage.Note{}, errors.New("the store is away")
	}
	return a.Store.Note(ctx, tenant, kind, key)
}

// TestDeletedWhileAway: what a deleted conversation has taught is forgotten also if the store is away when it is deleted, as is what others changed.
func TestDeletedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes, bus := &away{Store: memstore.New()}, memory.New(nil)
		defer bus.Close()
		s := New(Config{Notes: notes, Transport: bus, Router: router.New(nil), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		last, ended := make(chan struct{}), make(chan struct{})
		go func() {
			s.Serve(t.Context(), last)
			close(ended)
		}()
		for _, agent := range []string{"anna", "bert"} {
			s.offer(agent, &lesson{learned: []router.Evidence{
				{ID: "gone", Text: "words that go", Time: time.Now(), Conversation: evidenceOf("", "gone")},
				{ID: "kept", Text: "words that stay", Time: time.Now(), Conversation: evidenceOf("", "kept")},
			}})
		}
		<-time.After(time.Minute)
		if err := notes.DeleteNote(t.Context(), "", storage.NoteEvidence, "bert", 0); err != nil {
			t.Fatal(err)
		}
		notes.is.Store(true)
		s.Forget(&transport.Event{ID: "1", ContextID: "gone"}, &transport.Forget{})
		<-time.After(time.Minute)
		s.Forget(&transport.Event{ID: "2"}, &transport.Forget{AgentID: "bert"})
		<-time.After(time.Minute)
		notes.is.Store(false)
		<-time.After(time.Minute)
		s.mu.Lock()
		if anna, bert := s.agents["anna"].from, s.agents["bert"].from; len(anna) != 1 || anna[0] != evidenceOf("", "kept") || len(bert) != 0 {
			t.Errorf("of anna the conversations %q are used, and of bert %q", anna, bert)
		}
		s.mu.Unlock()
		n, err := notes.Note(t.Context(), "", storage.NoteEvidence, "anna")
		if err != nil || strings.Contains(string(n.Value), "words that go") {
			t.Errorf("the note of anna is %s, %v", n.Value, err)
		}
		close(last)
		<-ended
	})
}

// counting counts how often notes of evidence are written.
type counting struct {
	*memstore.Store
	puts int
}

func (c *counting) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if kind == storage.NoteEvidence {
		c.puts++
	}
	return c.Store.PutNote(ctx, tenant, kind, n)
}

// TestWritesAreInProportion checks that a note with much evidence is not written for each piece, and that nothing waits for long: not a correction,
// not what is much beside what is there, nor the rest when the learner ends.
func TestWritesAreInProportion(t *testing.T) {
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	notes, bus := &counting{Store: memstore.New()}, memory.New(nil)
	defer bus.Close()
	s := New(Config{Notes: notes, Transport: bus, Router: router.New(nil), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	n := 0
	learn := func(many int) {
		for range many {
			n++
			s.offer("anna", &lesson{learned: []router.Evidence{{ID: fmt.Sprint(n), Text: "sing a song", Time: now.Add(time.Duration(n))}}})
		}
	}
	const much = 64 // as many as are kept of one skill
	for _, step := range []struct {
		name string
		do   func()
		want int // writes in all
	}{
		{"the first ones", func() { learn(much) }, 1},
		{"a few", func() { learn(much / learnShare / 2) }, 1},
		{"and as many again", func() { learn(much / learnShare) }, 2},
		{"one", func() { learn(1) }, 2},
		{"it waits for long", func() { now = now.Add(learnLate) }, 3},
		{"a correction", func() { s.offer("anna", &lesson{wrong: []string{fmt.Sprint(n)}}) }, 4},
	} {
		step.do()
		if s.write(t.Context(), false); notes.puts != step.want {
			t.Errorf("%s: written %d times, want %d", step.name, notes.puts, step.want)
		}
	}
	learn(1)
	s.offer("anna", &lesson{outcomes: []outcome{{"skill", Record{Done: 1, Time: now}}}})
	s.write(t.Context(), false)
	if n, err := notes.Note(t.Context(), "", storage.NoteRecord, "anna"); err != nil || n.Version == 0 || notes.puts != 4 {
		t.Errorf("an outcome beside what waits: %+v, %v, and %d writes", n, err, notes.puts)
	}
	if s.write(t.Context(), true); notes.puts != 5 || s.size != 0 || len(s.pending) != 0 {
		t.Errorf("at the end: written %d times, want 5, and %d lessons wait", notes.puts, s.size)
	}
}
