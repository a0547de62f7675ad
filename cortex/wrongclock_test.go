package cortex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// wrongClock is a store whose clock is ahead.
type wrongClock struct {
	*memstore.Store
	by time.Duration
}

func (s *wrongClock) Clock(context.Context) (now, last time.Time, err error) {
	return time.Now().Add(s.by), time.Time{}, nil
}

func (s *wrongClock) Stored(context.Context, string, string) (time.Time, error) {
	return time.Time{}, nil
}

// TestDeletedByAWrongClock deletes a conversation while the clock of the server is ahead by a month. When that is set right, what was said before is
// refused, and something new begins the conversation anew.
func TestDeletedByAWrongClock(t *testing.T) {
	for _, test := range []struct {
		name   string
		stored time.Duration // from now
		heard  bool
	}{
		{"by the clock that was wrong", 29 * 24 * time.Hour, false},
		{"by the clock that is right", 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				s := &wrongClock{w.store.(*memstore.Store), 30 * 24 * time.Hour}
				if err := storage.KeepErased(t.Context(), s, "", theContext); err != nil {
					t.Fatal(err)
				}
				s.by = 0
				bus := &ahead{Transport: w.bus, by: test.stored}
				w.start(cortex.Config{Transport: bus, Store: s, Decider: simple(func(*llm.Turn) *llm.Decision { return respond("heard") })})
				w.say("m1", "hello")
				if got := len(w.decisions()) == 1; got != test.heard {
					t.Errorf("it was decided: %v, want %v", got, test.heard)
				}
			})
		})
	}
}
