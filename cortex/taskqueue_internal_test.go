package cortex

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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
