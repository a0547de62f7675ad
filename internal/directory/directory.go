// Package directory joins what a Cortex knows of agents: the registry, an index of the agents that may get work, and their records in the store.
// `cortex serve` and `cortex bench` both use it, so that the benchmark measures what runs in production.
package directory

import (
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Directory is the orchestrator's view of the registry: the agents that may get work, and an index of them. All methods but Tell are safe for
// concurrent use.
type Directory struct {
	Registry *registry.Registry
	Index    *router.Index

	orchestrator presence

	mu       sync.Mutex
	snapshot *registry.Snapshot // the snapshot from which list was made
	list     []prompt.Agent
}

// presence is notified when agents go and come back. The orchestrator implements it.
type presence interface {
	AgentGone(id string)
	AgentBack(id string)
}

// New returns a Directory with a registry of this configuration.
func New(cfg registry.Config) *Directory {
	d := &Directory{Index: router.New(&router.Options{Now: cfg.Now})}
	then := cfg.OnEvent
	cfg.OnEvent = func(e registry.Event) {
		d.update(e.Record)
		switch {
		case d.orchestrator == nil: // well-known agents, registered before Tell
		case e.Kind == registry.EventDeregistered:
			d.orchestrator.AgentGone(e.AgentID)
		case e.Record.Routable():
			d.orchestrator.AgentBack(e.AgentID)
		}
		if then != nil {
			then(e)
		}
	}
	d.Registry = registry.New(cfg)
	for _, r := range d.Registry.Snapshot().Agents() { // well-known agents
		d.update(r)
	}
	return d
}

// Tell sets the orchestrator that is notified when agents go and come back. It must be called before the registry runs.
func (d *Directory) Tell(orchestrator presence) { d.orchestrator = orchestrator }

// update updates the index for an agent.
func (d *Directory) update(r *registry.Record) {
	if r.Routable() {
		d.Index.Put(r.ID, r.Card)
	} else {
		d.Index.Remove(r.ID)
	}
}

// Routable returns the agents that may get work, in the order of their ids. The slice is shared; callers must not modify it. The argument, a
// tenant, is ignored, since the registry has one tenant; it is there for the field Agents of cortex.Config.
func (d *Directory) Routable(string) []prompt.Agent {
	s := d.Registry.Snapshot()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s != d.snapshot {
		d.snapshot = s
		if list := Routable(s); !slices.EqualFunc(list, d.list, same) { // heartbeats make snapshots, too
			d.list = list
		}
	}
	return d.list
}

// same reports whether a and b are one agent, unchanged.
func same(a, b prompt.Agent) bool { return a.ID == b.ID && a.Card == b.Card && a.Seen == b.Seen }

// Present reports whether an agent runs, or is well known, even if it may not be given work now.
func (d *Directory) Present(id string) bool {
	_, ok := d.Registry.Snapshot().Get(id)
	return ok
}

// Routable returns the agents of a snapshot that may get work, in the form that prompts use.
func Routable(s *registry.Snapshot) []prompt.Agent {
	records := s.Routable()
	list := make([]prompt.Agent, len(records))
	for i, r := range records {
		list[i] = prompt.Agent{ID: r.ID, Card: r.Card, Seen: !r.LastSeen.IsZero() && r.State != registry.StateUnknown}
	}
	return list
}
