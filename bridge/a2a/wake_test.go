package a2a_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// loads is a store that counts how often a log is read.
type loads struct {
	storage.Store
	n atomic.Int64
}

func (l *loads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	l.n.Add(1)
	return l.Store.Load(ctx, tenant, contextID, after)
}

// TestStrangersWakeNobody has somebody say things live, all the time, in the conversation of a task that waits for its client, which is subscribed to it. The
// task is not read for that, and goes on when its client replies.
func TestStrangersWakeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		store := &loads{Store: w.store}
		s := w.doorWith(func(c *a2a.Config) { c.Store = store })
		got, err := s.SendMessage(s.With(t.Context(), "user:ada", ""), said("paint it"))
		must(t, err)
		task := got.(*sdk.Task)
		var last atomic.Value
		over := make(chan error, 1)
		go func() {
			for e, err := range s.SubscribeToTask(s.With(t.Context(), "user:ada", ""), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
				if err != nil {
					over <- err
					return
				}
				if e, ok := e.(*sdk.TaskStatusUpdateEvent); ok {
					last.Store(e.Status.State)
				}
			}
			over <- nil
		}()
		synctest.Wait()
		before := store.n.Load()
		for i := range 100 {
			must(t, w.bus.Publish(t.Context(), transport.Live("", task.ContextID), &transport.Event{
				ID: fmt.Sprint("e", i), Time: time.Now(), From: "user:bob", ContextID: task.ContextID, Payload: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hello")),
			}))
			time.Sleep(30 * time.Millisecond)
		}
		if n := store.n.Load() - before; n > 1 { // it is read every five seconds anyway
			t.Errorf("the log was read %d times", n)
		}
		_, err = s.SendMessage(s.With(t.Context(), "user:ada", ""), in(said("blue"), "", task.ID))
		must(t, err)
		if err := <-over; err != nil || last.Load() != sdk.TaskStateCompleted {
			t.Errorf("the task ends as %v, %v", last.Load(), err)
		}
	})
}
