// Package directory is what a Cortex knows of agents: the registry, an index of those that may be given work, and what is kept of
// them between two starts. `cortex serve` and `cortex bench` are both wired with it, so that the one measures what the other runs.
package directory

import (
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Directory is the registry as the orchestrator sees it: the agents that may be given work, and an index of them. All methods
// but Tell are safe for concurrent use.
type Directory struct {
	Registry *registry.Registry
	Index    *router.Index

	told departures

	mu       sync.Mutex
	snapshot *registry.Snapshot // that list was made from
	list     []prompt.Agent
}

// departures is what wants to know which agents go and come: the orchestrator.
type departures interface {
	AgentGone(id string)
	AgentBack(id string)
}

// New returns a Directory whose registry has this configuration.
func New(cfg registry.Config) *Directory {
	d := &Directory{Index: router.New(&router.Options{Now: cfg.Now})}
	then := cfg.OnEvent
	cfg.OnEvent = func(e registry.Event) {
		d.update(e.Record)
		switch {
		case d.told == nil: // what is well known, before everything else
		case e.Kind == registry.EventDeregistered:
			d.told.AgentGone(e.AgentID)
		case e.Record.Routable():
			d.told.AgentBack(e.AgentID)
		}
		if then != nil {
			then(e)
		}
	}
	d.Registry = registry.New(cfg)
	for _, r := range d.Registry.Snapshot().Agents() { // well known
		d.update(r)
	}
	return d
}

// Tell says who is told from now on which agents go and come. It is called before the registry runs.
func (d *Directory) Tell(orchestrator departures) { d.told = orchestrator }

// update lets the index know what became of an agent.
func (d *Directory) update(r *registry.Record) {
	if r.Routable() {
		d.Index.Put(r.ID, r.Card)
	} else {
		d.Index.Remove(r.ID)
	}
}

// Routable returns the agents that may be given work, in the order of their ids. The slice is shared and never written to. The
// tenant, which is the registry's own, makes it an Agents of cortex.Config.
func (d *Directory) Routable(string) []prompt.Agent {
	s := d.Registry.Snapshot()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s != d.snapshot {
		d.snapshot, d.list = s, Routable(s)
	}
	return d.list
}

// Routable returns the agents of a snapshot that may be given work, as a prompt shows them.
func Routable(s *registry.Snapshot) []prompt.Agent {
	records := s.Routable()
	list := make([]prompt.Agent, len(records))
	for i, r := range records {
		list[i] = prompt.Agent{ID: r.ID, Card: r.Card, Seen: !r.LastSeen.IsZero() && r.State != registry.StateUnknown}
	}
	return list
}
