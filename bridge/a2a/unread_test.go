package a2a_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestMessageIsUnread takes a message while no Cortex handles any, as in the moment in which it is started again. Its task exists at all replicas, for
// its sender. After the kill of Cortex, a client was told that there was no such task.
func TestMessageIsUnread(t *testing.T) {
	bus, store := memory.New(nil), memstore.New()
	t.Cleanup(func() { bus.Close() })
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	replica := func() *a2a.Server {
		return a2a.New(a2a.Config{Client: &client.Client{Transport: bus, Log: client.ReadLog(store, ""), Now: now}, Store: store, Version: "test"})
	}
	one := replica()
	leaves, leave := context.WithCancel(t.Context())
	defer leave()
	ctx := one.With(leaves, "user:ada", "worker")
	var id sdk.TaskID
	var place string
	for e, err := range one.SendStreamingMessage(ctx, said("hello")) {
		if leaves.Err() != nil {
			break
		}
		must(t, err)
		id, place = e.TaskInfo().TaskID, e.TaskInfo().ContextID
		leave()
	}
	for name, s := range map[string]*a2a.Server{"the same": one, "another": replica()} {
		got, err := s.GetTask(s.With(t.Context(), "user:ada", "worker"), &sdk.GetTaskRequest{ID: id})
		if err != nil || got.ID != id || got.ContextID != place || got.Status.State != sdk.TaskStateSubmitted {
			t.Errorf("%s: GetTask() = %+v, %v", name, got, err)
		}
		for e, err := range s.SubscribeToTask(s.With(t.Context(), "user:ada", "worker"), &sdk.SubscribeToTaskRequest{ID: id}) {
			if task, ok := e.(*sdk.Task); err != nil || !ok || task.Status.State != sdk.TaskStateSubmitted {
				t.Errorf("%s: SubscribeToTask() begins with %+v, %v", name, e, err)
			}
			break
		}
		if got, err := s.GetTask(s.With(t.Context(), "user:bob", "worker"), &sdk.GetTaskRequest{ID: id}); !errors.Is(err, sdk.ErrTaskNotFound) {
			t.Errorf("%s: for somebody else: GetTask() = %+v, %v", name, got, err)
		}
	}
	must(t, bus.Erase(t.Context(), "", place))
	later.Store(int64(time.Minute))
	for name, s := range map[string]*a2a.Server{"the same": one, "another": replica()} {
		if got, err := s.GetTask(s.With(t.Context(), "user:ada", "worker"), &sdk.GetTaskRequest{ID: id}); !errors.Is(err, sdk.ErrTaskNotFound) {
			t.Errorf("%s, after it was erased: GetTask() = %+v, %v", name, got, err)
		}
	}
}

// TestUnreadIsSentAgain sends a message again, which was deleted before anybody read it: it is not taken for the one that waits.
func TestUnreadIsSentAgain(t *testing.T) {
	bus, store := memory.New(nil), memstore.New()
	t.Cleanup(func() { bus.Close() })
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := a2a.New(a2a.Config{Client: &client.Client{Transport: bus, Log: client.ReadLog(store, ""), Now: now}, Store: store, Version: "test"})
	waits := func() int {
		n, err := bus.Waiting(t.Context(), transport.Inbox("", transport.Cortex))
		must(t, err)
		return n
	}
	var place string
	for round := range 2 {
		ctx, leave := context.WithCancel(s.With(t.Context(), "user:ada", "worker"))
		for e, err := range s.SendStreamingMessage(ctx, in(said("hello"), "mine", "")) {
			if ctx.Err() != nil {
				break
			}
			must(t, err)
			place = e.TaskInfo().ContextID
			leave()
		}
		leave()
		if n := waits(); n != 1 {
			t.Fatalf("round %d: %d messages wait, want 1", round, n)
		}
		must(t, bus.Erase(t.Context(), "", place))
		later.Store(int64(time.Minute))
	}
}
