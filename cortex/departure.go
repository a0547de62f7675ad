package cortex

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// goneGrace is how long an agent may be gone before its tasks are tried with other agents.
	goneGrace = 10 * time.Second
	// absentGrace is the same for an agent whose going was not reported here: after a restart of everything, the agents may come up after Cortex.
	absentGrace = 90 * time.Second
)

// AgentGone says that no instance of an agent is left. If none is back within ten seconds, the agent's tasks are tried with other agents, or
// fail. When an event about it cannot be published, they end at their deadlines. AgentGone does not block, and is safe for concurrent use.
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

// put makes an agent count as gone at due, or earlier if that was said before.
func (d *departures) put(agent string, due time.Time) {
	d.mu.Lock()
	if at, ok := d.due[agent]; !ok || due.Before(at) {
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

// present reports whether an agent runs, or is well known.
func (o *Orchestrator) present(agent string) bool {
	if o.cfg.Present != nil {
		return o.cfg.Present(agent)
	}
	_, there := catalog.Find(o.cfg.Agents(o.cfg.Tenant), agent)
	return there
}

// track counts the tasks of a conversation, and looks for agents that have gone without a report to this process, or before their tasks were sent.
func (o *Orchestrator) track(conv *conversation.Conversation) {
	o.maker.Track(conv)
	o.inherited.drop(conv.Key())
	o.missing(conv)
}

// missing makes the absent agents of a conversation's running tasks count as gone after absentGrace. It returns the agents of all running tasks.
func (o *Orchestrator) missing(conv *conversation.Conversation) (agents []string) {
	for _, t := range conv.Running() {
		if t.Gone || slices.Contains(agents, t.Agent) {
			continue
		}
		agents = append(agents, t.Agent)
		if !o.present(t.Agent) {
			o.departures.put(t.Agent, o.cfg.Now().Add(absentGrace))
		}
	}
	return agents
}

// publishGone publishes to each conversation with a task of agent that the agent is gone.
func (o *Orchestrator) publishGone(ctx context.Context, agent string) {
	if o.present(agent) { // again, or always, as well-known agents are
		return
	}
	for _, k := range slices.Concat(o.maker.With(agent), o.inherited.take(agent)) {
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
