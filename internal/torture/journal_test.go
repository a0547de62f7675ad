package torture

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestJournalAfterAKill reads a client's file that ends within a line: the complete lines are kept, and new records begin a line of their own.
func TestJournalAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "client-0.journal")
	j, _, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	first := record{Time: epoch, Op: opIntent, Context: "talk-1", ID: "talk-1.0"}
	if err := j.add(first); err != nil {
		t.Fatal(err)
	}
	j.close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"t":"2026`); err != nil {
		t.Fatal(err)
	}
	f.Close()

	j, records, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]record{first}, records); diff != "" {
		t.Errorf("records after a kill (-want +got):\n%s", diff)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if err := j.add(record{Time: epoch, Op: opAccepted, Context: "talk-1", ID: "talk-1.0"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(path) // before closing: add has returned
	if err != nil {
		t.Fatal(err)
	}
	records, size, err := parseRecords(b)
	if err != nil || len(records) != 101 || size != len(b) {
		t.Errorf("%d records in %d of %d bytes, %v, want 101 in all", len(records), size, len(b), err)
	}
	j.close()
}

// TestWatcher reads files that are being written, in pieces.
func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(dir, plan)
	look := func(want ...string) {
		t.Helper()
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for id := range w.open {
			got = append(got, id)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("open (-want +got):\n%s", diff)
		}
	}
	look()
	f, err := os.Create(journalFile(dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, step := range []struct {
		text string
		want []string
	}{
		{`{"t":"2026-11-20T12:00:00Z","op":"intent","context":"talk-1","id":"talk-1.0"}` + "\n" + `{"t":"2026-11-20T12:00:00Z","op":"acc`, nil},
		{`epted","context":"talk-1","id":"talk-1.0"}` + "\n", []string{"talk-1.0"}},
		{`{"t":"2026-11-20T12:00:00Z","op":"answer","context":"talk-1","id":"talk-1.0"}` + "\n", nil},
	} {
		if _, err := f.WriteString(step.text); err != nil {
			t.Fatal(err)
		}
		look(step.want...)
	}
}

// TestSaidIn combines the lines of a client's file.
func TestSaidIn(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	m := plan.talk(5).message(0)
	records := []record{
		{Time: at(0), Op: opIntent, Context: "talk-5", ID: m.id},
		{Time: at(1), Op: opAccepted, Context: "talk-5", ID: m.id},
		{Time: at(2), Op: opAccepted, Context: "talk-5", ID: m.id}, // repeated after a kill
		{Time: at(3), Op: opAnswer, Context: "talk-5", ID: m.id, Answer: "a", Text: "x"},
		{Time: at(4), Op: opIntent, Context: "talk-5", ID: plan.talk(5).message(1).id, N: 1},
		{Time: at(4), Op: opIntent, Context: "unknown", ID: "x"},
	}
	got := saidIn(plan, 0, records)
	if len(got) != 1 || len(got["talk-5"]) != 2 {
		t.Fatalf("said %v, want two messages of talk-5", got)
	}
	s := got["talk-5"][0]
	if !s.intent.Equal(at(0)) || !s.accepted.Equal(at(1)) || len(s.answers) != 1 || s.message != m {
		t.Errorf("first message %+v, want it accepted at the first time, with its answer", s)
	}
	if s := got["talk-5"][1]; !s.accepted.IsZero() || s.n != 1 {
		t.Errorf("second message %+v, want it not accepted", s)
	}
}
