package rockbot

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

type stored = storage.Notes

// slowNotes are no notes, which take a while to be read.
type slowNotes struct {
	stored
	takes time.Duration
	reads int
}

func (n *slowNotes) Notes(context.Context, string, string) iter.Seq2[storage.Note, error] {
	return func(func(storage.Note, error) bool) {
		n.reads++
		time.Sleep(n.takes)
	}
}

// TestUnknownAnswers answers what was never asked: the answers that wait together are looked for together, and the next ones soon, since those that were
// asked for wait behind them.
func TestUnknownAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &slowNotes{takes: time.Millisecond}
		k := &book{b: &bridge{at: &role.Site{}}, notes: notes, turn: semaphore.NewWeighted(1), by: map[string]*sent{}}
		find := func(id string) {
			if s, err := k.find(t.Context(), id); s != nil || err != nil {
				t.Errorf("find = %v, %v", s, err)
			}
		}
		must(t, k.turn.Acquire(t.Context(), 1))
		var waiting sync.WaitGroup
		for range inFlight {
			waiting.Go(func() { find("unknown") })
		}
		synctest.Wait()
		time.Sleep(time.Nanosecond) // what comes while the notes are read may be in them or not
		k.turn.Release(1)
		waiting.Wait()
		if notes.reads != 1 {
			t.Errorf("the notes were read %d times for answers that came together", notes.reads)
		}
		began := time.Now()
		find("another")
		if took := time.Since(began); took != (1+scanShare)*notes.takes {
			t.Errorf("it took %v", took)
		}
		notes.takes = time.Minute
		find("more")
		began = time.Now()
		find("most")
		if took := time.Since(began); took != scanEach+notes.takes {
			t.Errorf("it took %v with many notes", took)
		}
	})
}
