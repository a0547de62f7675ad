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
	task := w.send(c, said("hello"))
	state := func() sdk.TaskState {
		got, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{})
		must(t, err)
		if len(got.Tasks) != 1 || got.Tasks[0].ID != task.ID {
			t.Fatalf("ListTasks() = %+v", got.Tasks)
		}
		return got.Tasks[0].Status.State
	}
	store.lags.Store(true)
	if is := state(); is == sdk.TaskStateCompleted {
		t.Fatal("the replica is not behind")
	}
	store.lags.Store(false)
	if is := state(); is != sdk.TaskStateCompleted {
		t.Errorf("the task is %s, want completed", is)
	}
}
