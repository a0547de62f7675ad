package a2a

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// slowNotes are notes whose lists wait until they may go on.
type slowNotes struct {
	*memstore.Store
	lists int
	on    chan struct{}
}

func (s *slowNotes) Notes(ctx context.Context, tenant, kind string) iter.Seq2[storage.Note, error] {
	return func(yield func(storage.Note, error) bool) {
		s.lists++
		<-s.on
		s.Store.Notes(ctx, tenant, kind)(yield)
	}
}

// TestPushesAreCountedOnce has many make configs at the same time: all notes are read once for them, and no more while that is of now.
func TestPushesAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &slowNotes{Store: memstore.New(), on: make(chan struct{})}
		s := &Server{cfg: Config{Client: &client.Client{Now: time.Now}}, outbox: &outbox{notes: notes}}
		const all = 50
		done := make(chan error, all)
		for range all {
			go func() { done <- s.outbox.counts.refresh(t.Context(), s) }()
		}
		synctest.Wait()
		close(notes.on)
		for range all {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if notes.lists != 1 {
			t.Errorf("the notes were listed %d times, want once", notes.lists)
		}
	})
}
