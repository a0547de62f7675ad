package learn

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func newLearner(t *testing.T, notes storage.Notes) *Learner {
	bus := memory.New(nil)
	t.Cleanup(func() { bus.Close() })
	return New(Config{Notes: notes, Transport: bus, Router: router.New(nil), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
}

func TestRecordAdds(t *testing.T) {
	at := time.Unix(1e9, 0)
	r := Record{Done: 4, Failed: 2, Seconds: 8, Cost: 1, Time: at}
	if got, want := r.add(Record{Done: 1, Seconds: 3, Time: at.Add(recordHalf)}), (Record{Done: 3, Failed: 1, Seconds: 7, Cost: 0.5, Time: at.Add(recordHalf)}); got != want {
		t.Errorf("after a half-life: %+v, want %+v", got, want)
	}
	for range 1000 {
		r = r.add(Record{Failed: 1, Time: at})
	}
	if all := r.Done + r.Failed; all > maxRecorded+1e-9 || r.Done > 0.01 {
		t.Errorf("after a thousand failures: %+v, want at most %d tasks, all but failed", r, maxRecorded)
	}
}

// TestRecordsAreKept has one process record outcomes, and another one read them, and both again when a third has added some.
func TestRecordsAreKept(t *testing.T) {
	store, at := memstore.New(), time.Unix(1e9, 0).UTC()
	done := outcome{"skill", Record{Done: 1, Seconds: 2, Cost: 0.5, Time: at}}
	s := newLearner(t, store)
	s.note("a", done)
	if d := cmp.Diff(done.Record, s.Record("a", "skill")); d != "" {
		t.Errorf("at once (-want +got):\n%s", d)
	}
	s.write(t.Context(), false)
	other := newLearner(t, store)
	if err := other.Remember(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.note("a", outcome{"skill", Record{Failed: 1, Time: at}})
	other.write(t.Context(), false)
	s.note("a", outcome{"skill", Record{Failed: 1, Time: at}}) // not written yet
	s.Forget(&transport.Event{ID: "changed"}, &transport.Forget{AgentID: "a"})
	s.reread(t.Context())
	if d := cmp.Diff(Record{Done: 1, Failed: 2, Seconds: 2, Cost: 0.5, Time: at}, s.Record("a", "skill")); d != "" {
		t.Errorf("with what another process has written (-want +got):\n%s", d)
	}
	s.write(t.Context(), false)
	if err := store.DeleteNote(t.Context(), "", storage.NoteRecord, "a", 0); err != nil {
		t.Fatal(err)
	}
	s.Forget(&transport.Event{ID: "deleted"}, &transport.Forget{AgentID: "a"})
	s.reread(t.Context())
	if got := s.Record("a", "skill"); got != (Record{}) {
		t.Errorf("when the note is deleted: %+v, want nothing", got)
	}
}

func TestRecordsAreBounded(t *testing.T) {
	s := newLearner(t, nil)
	s.notes = nil
	for i := range 2 * maxRecords {
		s.note(fmt.Sprint(i), outcome{"skill", Record{Done: 1}})
	}
	for i := range 2 * maxRecordSkills {
		s.note("0", outcome{fmt.Sprint(i), Record{Done: 1, Time: time.Unix(int64(i), 0)}})
	}
	if n, of := len(s.records), len(s.records["0"]); n != maxRecords || of != maxRecordSkills {
		t.Errorf("%d agents and %d skills of one are recorded, want %d and %d", n, of, maxRecords, maxRecordSkills)
	}
}
