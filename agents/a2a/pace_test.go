package a2a

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestPace has a peer stream without a pause: what comes is read at a pace.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, seconds = eventsAtOnce + 60*eventsPerSecond, 60
		open := func(context.Context) iter.Seq2[a2a.Event, error] {
			return func(yield func(a2a.Event, error) bool) {
				for range events {
					if !yield(&a2a.TaskStatusUpdateEvent{TaskID: "another"}, nil) {
						return
					}
				}
			}
		}
		began := time.Now()
		w := &work{r: &record{Task: "t1"}, pace: newPace()}
		if settled, err := w.listen(t.Context(), open); settled || err != nil {
			t.Fatalf("listen = %v, %v", settled, err)
		}
		if took := time.Since(began).Round(time.Second); w.events != events || took != seconds*time.Second {
			t.Errorf("%d events were read in %v, want %d in %d s", w.events, took, events, seconds)
		}
	})
}
