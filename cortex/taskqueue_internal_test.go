package cortex

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// waiting is a transport whose inboxes hold so many events.
type waiting struct{ events int }

func (w *waiting) Waiting(context.Context, transport.Topic) (int, error) { return w.events, nil }

// TestQueueAfterStarts has one requester ask for more than may wait, and Cortex started again and again, each time before the tasks that wait have arrived
// here. Others still find room for some of theirs, also for the same agent.
func TestQueueAfterStarts(t *testing.T) {
	w := &waiting{}
	tasks := 0
	// reserve returns how many of n tasks may wait.
	reserve := func(q *taskQueue, requester, agent string, n int) (admitted int) {
		for range n {
			tasks++
			task := &queuedTask{id: fmt.Sprint(tasks), agent: agent, requester: requester}
			switch err := q.reserve(t.Context(), task); {
			case err == nil:
				admitted, w.events = admitted+1, w.events+1
			case !errors.Is(err, transport.ErrFull):
				t.Fatal(err)
			}
		}
		return admitted
	}
	for start := range 4 {
		q := &taskQueue{depth: w, agents: map[string]*agentQueue{}, by: map[string]int{}, enqueued: map[string]*queuedTask{}, counted: time.Now(), inbox: w.events}
		reserve(q, "eve", "calc", maxQueued)
		for _, agent := range []string{"calc", "other"} {
			if n := reserve(q, "ada "+agent, agent, 8); n != 8 {
				t.Errorf("after start %d, with %d tasks that wait, %d of 8 for %s were admitted", start, w.events, n, agent)
			}
		}
	}
}

// loads is a store that counts the conversations that are being read, each until release is closed.
type loads struct {
	storage.Store
	begun   chan struct{}
	release chan struct{}
}

func (l *loads) Load(context.Context, string, string, conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		l.begun <- struct{}{}
		<-l.release
		yield(nil, transport.ErrUnavailable)
	}
}

// TestManyOverdue has many tasks be overdue at the same time, as after a restart: those of a conversation share a reading of it, and few conversations are read
// at a time, since each may be large.
func TestManyOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conversations = 3 * maxOverdues
		l := &loads{begun: make(chan struct{}, 1000), release: make(chan struct{})}
		o := &Orchestrator{cfg: Config{Store: l}, overdues: make(chan struct{}, maxOverdues)}
		var running sync.WaitGroup
		for i := range 20 * conversations {
			running.Go(func() {
				if err := o.overdue(t.Context(), &queuedTask{contextID: fmt.Sprint("c", i%conversations)}); !errors.Is(err, transport.ErrUnavailable) {
					t.Errorf("overdue() = %v, want that the store is away", err)
				}
			})
		}
		synctest.Wait()
		if n := len(l.begun); n != maxOverdues {
			t.Errorf("%d conversations are read at a time, want %d", n, maxOverdues)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := o.overdue(stopped, &queuedTask{contextID: "c0"}); !errors.Is(err, context.Canceled) {
			t.Errorf("after its end: %v", err)
		}
		close(l.release)
		running.Wait()
		if n := len(l.begun); n != 2*conversations {
			t.Errorf("conversations were read %d times, want twice each: for the first task, and for all others", n)
		}
	})
}
