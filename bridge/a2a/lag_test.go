package a2a_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
)

// lagging is a store whose logs are answered by a replica that is an entry behind, while it lags.
type lagging struct {
	*memstore.Store
	lags atomic.Bool
}

func (s *lagging) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		var held *conversation.Entry
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if err != nil || held != nil && !yield(held, nil) {
				return
			}
			held = e
		}
		if held != nil && !s.lags.Load() {
			yield(held, nil)
		}
	}
}

// TestListOfLaggingReplica lists tasks by a replica that is behind, and again when it is not.
func TestListOfLaggingReplica(t *testing.T) {
	w := newWorld(t, false)
	store := &lagging{Store: w.store}
	c := w.join(sdk.TransportProtocolJSONRPC, w.serve(w.doorWith(func(c *a2a.Config) { c.Store = store }), nil))
	w.send(c, said("hello"))
	over := func() int {
		got, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: sdk.TaskStateCompleted})
		must(t, err)
		return len(got.Tasks)
	}
	store.lags.Store(true)
	if n := over(); n != 0 {
		t.Fatalf("%d tasks are completed at a replica that is behind", n)
	}
	store.lags.Store(false)
	if n := over(); n != 1 {
		t.Errorf("%d tasks are completed, want 1", n)
	}
}
