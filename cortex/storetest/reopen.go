package storetest

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex"
)

func testReopen(t *testing.T, h Harness) {
	s := h.Open(t)
	versions := fill(t, s, "t", "c.1", 5)
	if snaps, ok := s.(cortex.Snapshots); ok {
		put(t, snaps, "t", "c.1", versions[3], []byte("fold"))
	}
	if ledger, ok := s.(cortex.Ledger); ok {
		spend(t, ledger, "t", today, usage, usage)
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
		if snaps, ok := s.(cortex.Snapshots); ok {
			wantSnapshot(t, snaps, "t", "c.1", versions[3], []byte("fold"))
		}
		if ledger, ok := s.(cortex.Ledger); ok {
			wantSpent(t, ledger, "t", today, usage)
		}
	}
	wantConflict(t, s, "t", "c.1", versions[3])
	wantConflict(t, s, "t", "c.1", 0)
	add(t, s, "t", "c.1", versions[4], entry(6, "goes on"))
	wantSeqs(t, load(t, s, "t", "c.1", 0), 1, 6)
}
