package storetest

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

func testReopen(t *testing.T, h Harness) {
	s := h.Open(t)
	versions := fill(t, s, "t", "c.1", 5)
	if snaps, ok := s.(storage.Snapshots); ok {
		put(t, snaps, "t", "c.1", versions[3], []byte("fold"))
	}
	if spendLog, ok := s.(storage.SpendLog); ok {
		spend(t, spendLog, "t", today, usage, usage)
	}
	if notes, ok := s.(storage.Notes); ok {
		putNote(t, notes, "t", "kind", "kept", 0, "a")
		putNote(t, notes, "t", "kind", "deleted", 0, "b")
		if err := notes.DeleteNote(t.Context(), "t", "kind", "deleted", 0); err != nil {
			t.Fatalf("DeleteNote = %v", err)
		}
		v := putNote(t, notes, "t", "kind", "erased", 0, "c")
		eraseNote(t, notes, "t", "kind", "erased", v, "d")
	}
	eraser, erases := s.(storage.Eraser)
	if erases {
		fill(t, s, "t", "erased", 3)
		if err := eraser.Erase(t.Context(), "t", "erased"); err != nil {
			t.Fatalf("Erase = %v", err)
		}
	}
	want := load(t, s, "t", "c.1", 0)
	list := contexts(t, s, "t")

	for range 2 {
		s = h.Reopen(t, s)
		if d := diff(want, load(t, s, "t", "c.1", 0)); d != "" {
			t.Fatalf("entries after reopening differ (-want +got):\n%s", d)
		}
		if d := diff(list, contexts(t, s, "t")); d != "" {
			t.Errorf("conversations after reopening differ (-want +got):\n%s", d)
		}
		if erases && len(load(t, s, "t", "erased", 0)) > 0 {
			t.Errorf("an erased conversation is there after reopening")
		}
		if snaps, ok := s.(storage.Snapshots); ok {
			wantSnapshot(t, snaps, "t", "c.1", versions[3], []byte("fold"))
		}
		if spendLog, ok := s.(storage.SpendLog); ok {
			wantSpent(t, spendLog, "t", today, usage)
		}
		if notes, ok := s.(storage.Notes); ok {
			wantNotes(t, notes, "t", "kind", map[string]string{"kept": "a", "erased": "d"})
			for n, err := range notes.Notes(t.Context(), "t", "kind") {
				if err != nil {
					t.Fatalf("Notes = %v", err)
				}
				n.Version = eraseNote(t, notes, "t", "kind", n.Key, n.Version, string(n.Value))
				putNote(t, notes, "t", "kind", n.Key, n.Version, string(n.Value))
			}
		}
	}
	wantConflict(t, s, "t", "c.1", versions[3])
	wantConflict(t, s, "t", "c.1", 0)
	add(t, s, "t", "c.1", versions[4], entry(6, "goes on"))
	wantSeqs(t, load(t, s, "t", "c.1", 0), 1, 6)
}
