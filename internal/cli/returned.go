package cli

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what is told of agents that hand back their tasks: how long a task was there before it is told, how long nothing was heard when it is over, and of
// how many agents it is known.
const (
	returnsLong  = 30 * time.Second
	returnsOver  = time.Minute
	maxReturning = 1024
)

// returns are the agents that hand back a task again and again, instead of doing it or saying that they will not. Their tasks end at their deadlines. It
// is safe for concurrent use.
type returns struct {
	log *slog.Logger
	now func() time.Time

	mu sync.Mutex
	of map[string]returning // by agent
}

type returning struct {
	transport.Returned
	heard time.Time
	told  bool
}

// watch takes note of what a transport tells, until ctx ends. Work goes on without it.
func (r *returns) watch(ctx context.Context, bus transport.Transport, tenant string) {
	w, ok := bus.(transport.ReturnWatcher)
	if !ok {
		return
	}
	if err := persist(ctx, func(ctx context.Context) error { return w.WatchReturned(ctx, tenant, r.note) }); err != nil && ctx.Err() == nil {
		r.log.Warn("agents that hand back their tasks are not noticed", "err", oneLine(err))
	}
}

func (r *returns) note(of transport.Returned) {
	if transport.IsReserved(of.Inbox.ID) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.forget(now)
	before, ok := r.of[of.Inbox.ID]
	if !ok && len(r.of) >= maxReturning || ok && before.Stored.Before(of.Stored) { // the oldest one says most
		return
	}
	one := returning{of, now, before.told}
	if !one.told && one.long(now) {
		one.told = true
		r.log.Warn("agent hands back a task again and again", "agent", of.Inbox.ID, "times", one.Times, "since", one.Stored)
	}
	if r.of == nil {
		r.of = map[string]returning{}
	}
	r.of[of.Inbox.ID] = one
}

// long reports whether the task was there for so long that a start of its agent does not explain it.
func (one *returning) long(now time.Time) bool { return now.Sub(one.Stored) >= returnsLong }

// forget drops the agents of which nothing was heard for a while. r.mu is held.
func (r *returns) forget(now time.Time) {
	maps.DeleteFunc(r.of, func(_ string, one returning) bool { return now.Sub(one.heard) > returnsOver })
}

// trouble returns a line for each agent.
func (r *returns) trouble() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.forget(now)
	for _, agent := range slices.Sorted(maps.Keys(r.of)) {
		if one := r.of[agent]; one.long(now) {
			lines = append(lines, fmt.Sprintf("agent %s hands back its tasks: one was delivered to it %d times in %v, and ends at its deadline; see why in the agent's log, or end the agent",
				prompt.Clean(agent, 64), one.Times, now.Sub(one.Stored).Round(time.Second)))
		}
	}
	return lines
}
