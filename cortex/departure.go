package cortex

import (
	"context"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/transport"
)

// goneGrace is how long an agent may be gone before its tasks are tried with other agents.
const goneGrace = 10 * time.Second

// AgentGone says that no instance of an agent is left. If none is back within ten seconds, the agent's tasks are tried with other agents, or
// fail, in the conversations that this orchestrator has handled since it started. In other conversations, and when an event about it cannot
// be published, the tasks end at their deadlines. AgentGone does not block, and is safe for concurrent use.
func (o *Orchestrator) AgentGone(agentID string) {
	o.departures.put(agentID, o.cfg.Now().Add(goneGrace))
}

// AgentBack says that an instance of an agent is back. It cancels an AgentGone of the last ten seconds. It does not block, and
// is safe for concurrent use.
func (o *Orchestrator) AgentBack(agentID string) { o.departures.remove(agentID) }

// departures are the missing agents that do not count as gone yet. The registry bounds their number.
type departures struct {
	now func() time.Time

	mu      sync.Mutex
	due     map[string]time.Time // when each counts as gone
	changed chan struct{}        // receives when an agent was added
}

func newDepartures(now func() time.Time) *departures {
	return &departures{now: now, due: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

func (d *departures) put(agent string, due time.Time) {
	d.mu.Lock()
	if _, ok := d.due[agent]; !ok { // else its time is running
		d.due[agent] = due
	}
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *departures) remove(agent string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.due, agent)
}

// next removes and returns the agents that count as gone now. wait is the time until the next one, or less than 0 when there is none.
func (d *departures) next() (gone []string, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait = -1
	now := d.now()
	for agent, due := range d.due {
		switch left := due.Sub(now); {
		case left <= 0:
			gone = append(gone, agent)
			delete(d.due, agent)
		case wait < 0 || left < wait:
			wait = left
		}
	}
	return gone, wait
}

// serve calls publish for each agent that is gone, until ctx ends.
func (d *departures) serve(ctx context.Context, publish func(ctx context.Context, agent string)) {
	for {
		gone, wait := d.next()
		for _, agent := range gone {
			publish(ctx, agent)
		}
		var over <-chan time.Time
		if wait >= 0 {
			over = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		case <-over:
		}
	}
}

// publishGone publishes to each conversation with a task of agent that the agent is gone.
func (o *Orchestrator) publishGone(ctx context.Context, agent string) {
	if _, there := catalog.Find(o.cfg.Agents(o.cfg.Tenant), agent); there { // again, or always, as well-known agents are
		return
	}
	for _, k := range o.maker.With(agent) {
		now := o.cfg.Now()
		err := o.cfg.Transport.Publish(ctx, transport.Inbox(k.Tenant, transport.Cortex), &transport.Event{
			ID: o.cfg.NewID(), Time: now, From: transport.Cortex, To: transport.Cortex, Tenant: k.Tenant, ContextID: k.ContextID,
			Payload: &transport.AgentEvent{Time: now, Kind: transport.AgentGone, AgentID: agent},
		})
		if err != nil && ctx.Err() == nil {
			o.log.Warn("cannot publish that an agent has gone", "context_id", k.ContextID, "agent", agent, "err", err)
		}
	}
}
