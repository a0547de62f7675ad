package agents_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// custodian is a keeper that keeps something of tasks which it does not work on.
type custodian struct {
	keeper
	kept []agents.KeptTask
}

func (c custodian) Kept() []agents.KeptTask { return c.kept }

// TestKeptTasks serves an agent that keeps something of two tasks, and works on another one: it asks whether the two are still wanted, at once and again, and
// is told of the one that was canceled when it was away.
func TestKeptTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		working := keeper{func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, make(chan string, 2)}
		b.give(task("busy", "hello", nil))
		defer b.execute(custodian{working, []agents.KeptTask{{ContextID: "ctx", ID: "t1"}, {ContextID: "ctx", ID: "t2"}, {ContextID: "ctx", ID: "busy"}, {Tenant: "other", ContextID: "ctx", ID: "t3"}}}, nil)()
		pass(time.Second)
		asked := func() map[a2a.TaskID]int {
			b.mu.Lock()
			defer b.mu.Unlock()
			all := map[a2a.TaskID]int{}
			for _, e := range b.results {
				if p, ok := e.Payload.(*a2a.TaskStatusUpdateEvent); ok && p.Status.State == a2a.TaskStateSubmitted && e.From == "agent_x" && e.ContextID == "ctx" {
					all[p.TaskID]++
				}
			}
			return all
		}
		if all := asked(); len(all) > 3 || all["t1"] != 1 || all["t2"] != 1 || all["t3"] != 0 {
			t.Errorf("it asks about %v", all)
		}
		b.cancel(&transport.Cancel{TaskID: "t2"})
		if got := <-working.told; got != "ctxt2" {
			t.Errorf("it is told of %q", got)
		}
		pass(5 * time.Minute)
		if all := asked(); all["t1"] != 2 || all["busy"] > 1 {
			t.Errorf("later, it has asked about %v", all)
		}
	})
}
