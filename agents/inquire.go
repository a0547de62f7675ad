package agents

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	inquireEach = 5 * time.Minute
	inquireMost = 256 // tasks at a time
)

// inquire asks Cortex, until ctx ends, whether the tasks that the agent keeps are still wanted: it reports them as not begun, and control gets what it is told
// to stop.
func (a *agent) inquire(ctx context.Context, k Keeper) {
	for {
		all := k.Kept()
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // so that each has its turn
		for _, t := range all[:min(len(all), inquireMost)] {
			if t.Tenant != a.o.Tenant || a.isRunning(t.ID) {
				continue
			}
			now := time.Now()
			e := &transport.Event{
				ID: a.nextID(), Time: now, From: a.id, To: transport.Cortex, Tenant: t.Tenant, ContextID: t.ContextID, TaskID: t.ID,
				Payload: &a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: &now}},
			}
			if err := a.publish(ctx, transport.Inbox(t.Tenant, transport.Cortex), e); err != nil {
				if ctx.Err() != nil {
					return
				}
				a.log.Warn("it is unknown whether a task is still wanted", "task_id", t.ID, "err", err)
			}
		}
		if rest.For(ctx, inquireEach) != nil {
			return
		}
	}
}

func (a *agent) isRunning(id a2a.TaskID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[id] != nil
}
