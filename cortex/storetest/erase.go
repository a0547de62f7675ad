package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

func erase(t *testing.T, s storage.Store, tenant, contextID string) {
	t.Helper()
	if err := s.(storage.Eraser).Erase(t.Context(), tenant, contextID); err != nil {
		t.Fatalf("Erase(%q, %q) = %v", tenant, contextID, err)
	}
}

func testErase(t *testing.T, s storage.Store) {
	erase(t, s, "", "nothing")
	old := fill(t, s, "", "c", 5)
	for _, other := range []struct{ tenant, id string }{{"", "c.c"}, {"", "C"}, {"t", "c"}} {
		fill(t, s, other.tenant, other.id, 2)
	}
	snaps, hasSnaps := s.(storage.Snapshots)
	if hasSnaps {
		put(t, snaps, "", "c", old[3], []byte("fold"))
	}

	for range 2 {
		erase(t, s, "", "c")
		if entries := load(t, s, "", "c", 0); len(entries) > 0 {
			t.Errorf("%d entries of an erased conversation are loaded, want none", len(entries))
		}
		if hasSnaps {
			wantSnapshot(t, snaps, "", "c", 0, nil)
		}
	}
	for _, info := range contexts(t, s, "") {
		if info.ContextID == "c" {
			t.Errorf("an erased conversation is listed: %+v", info)
		}
	}
	for _, other := range []struct{ tenant, id string }{{"", "c.c"}, {"", "C"}, {"t", "c"}} {
		wantSeqs(t, load(t, s, other.tenant, other.id, 0), 1, 2)
	}

	// A writer with an old version gets ErrConflict. The conversation can begin again, without anything of the first one.
	wantConflict(t, s, "", "c", old[4])
	wantConflict(t, s, "", "c", old[0])
	anew := fill(t, s, "", "c", 2)
	if anew[0] <= old[4] {
		t.Errorf("version %d of the new conversation is not greater than %d, the last of the erased one", anew[0], old[4])
	}
	wantConflict(t, s, "", "c", old[4])
	wantSeqs(t, load(t, s, "", "c", 0), 1, 2)
	if hasSnaps {
		put(t, snaps, "", "c", old[4], []byte("late"))
		wantSnapshot(t, snaps, "", "c", 0, nil)
		put(t, snaps, "", "c", anew[1], []byte("new"))
		wantSnapshot(t, snaps, "", "c", anew[1], []byte("new"))
	}
}

// testEraseWritten erases a conversation again and again while writers load it and append to it.
func testEraseWritten(t *testing.T, s storage.Store) {
	var writers sync.WaitGroup
	end := make(chan struct{})
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				entries, err := tryLoad(t.Context(), s, "", "c", 0)
				if err != nil {
					continue // being erased
				}
				var last conversation.Version
				if n := len(entries); n > 0 {
					if last = entries[n-1].Version; entries[n-1].Seq != uint64(n) {
						continue
					}
				}
				if _, err := s.Append(t.Context(), "", "c", last, entry(uint64(len(entries)+1), "x")); err != nil && !errors.Is(err, storage.ErrConflict) {
					t.Errorf("Append = %v, want nil or ErrConflict", err)
				}
			}
		})
	}
	for range 20 {
		erase(t, s, "", "c")
	}
	close(end)
	writers.Wait()
	if n := len(load(t, s, "", "c", 0)); n > 0 {
		wantSeqs(t, load(t, s, "", "c", 0), 1, uint64(n))
	}
	erase(t, s, "", "c")
	fill(t, s, "", "c", 2)
}
