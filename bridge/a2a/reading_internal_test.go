package a2a

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
)

// slowLoads is a store whose loads wait until they may go on.
type slowLoads struct {
	*memstore.Store
	loads int
	on    chan struct{}
}

func (s *slowLoads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		s.loads++
		<-s.on
		s.Store.Load(ctx, tenant, contextID, after)(yield)
	}
}

// TestReadingIsShared wakes many streams of a person at once: the conversation is read for the first one, and once more for all who came meanwhile.
func TestReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowLoads{Store: memstore.New(), on: make(chan struct{})}
		s := New(Config{Client: &client.Client{}, Store: store})
		const all = 50
		done := make(chan error, all)
		for range all {
			go func() {
				c, err := callerOf(s.With(t.Context(), "user:ada", ""))
				if err == nil {
					_, err = s.read(t.Context(), c, "c1", "")
				}
				done <- err
			}()
		}
		synctest.Wait()
		close(store.on)
		for range all {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if store.loads != 2 {
			t.Errorf("the log was read %d times, want twice", store.loads)
		}
	})
}
