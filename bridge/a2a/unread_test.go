package a2a_test

import (
	"context"
	"errors"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestMessageIsUnread takes a message while no Cortex handles any, as in the moment in which it is started again. Its task exists at all replicas, for
// its sender. After the kill of Cortex, a client was told that there was no such task.
func TestMessageIsUnread(t *testing.T) {
	bus, store := memory.New(nil), memstore.New()
	t.Cleanup(func() { bus.Close() })
	replica := func() *a2a.Server {
		return a2a.New(a2a.Config{Client: &client.Client{Transport: bus, Log: client.ReadLog(store, "")}, Store: store, Version: "test"})
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
	s := replica()
	if got, err := s.GetTask(s.With(t.Context(), "user:ada", "worker"), &sdk.GetTaskRequest{ID: id}); !errors.Is(err, sdk.ErrTaskNotFound) {
		t.Errorf("after it was erased: GetTask() = %+v, %v", got, err)
	}
}
