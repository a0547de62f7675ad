package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// testDamage damages an entry: a load yields the entries before it and then ErrDamaged, and other conversations are not affected.
func testDamage(t *testing.T, h Harness) {
	for _, place := range []uint64{1, 3} {
		t.Run(fmt.Sprint(place), func(t *testing.T) {
			s := h.Open(t)
			fill(t, s, "", "a", 3)
			old := fill(t, s, "", "c", 5)
			fill(t, s, "", "b", 3)
			if snaps, ok := s.(storage.Snapshots); ok {
				put(t, snaps, "", "c", old[4], []byte("fold"))
			}
			s = h.Damage(t, s, "c", place)
			for range 2 { // the damage is permanent
				entries, err := tryLoad(t.Context(), s, "", "c", 0)
				if !errors.Is(err, conversation.ErrDamaged) || len(entries) >= int(place) {
					t.Errorf("Load yields %d entries and %v, want less than %d and ErrDamaged", len(entries), err, place)
				}
			}
			for _, id := range []string{"a", "b"} {
				wantSeqs(t, load(t, s, "", id, 0), 1, 3)
			}
			n := 0
			for _, err := range s.Contexts(t.Context(), "") {
				if err != nil {
					t.Errorf("Contexts = %v", err)
				}
				n++
			}
			if n < 2 {
				t.Errorf("Contexts yields %d conversations, want at least the two that are good", n)
			}
			fill(t, s, "", "d", 2)
			if _, ok := s.(storage.Eraser); ok {
				erase(t, s, "", "c")
				fill(t, s, "", "c", 2)
				wantSeqs(t, load(t, s, "", "c", 0), 1, 2)
			}
		})
	}
}
