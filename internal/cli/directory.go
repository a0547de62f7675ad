package cli

import (
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// directory is the registry as the orchestrator sees it: the agents that may be given work, and an index of them. All methods
// are safe for concurrent use.
type directory struct {
	registry *registry.Registry
	index    *router.Index

	mu       sync.Mutex
	snapshot *registry.Snapshot // that list was made from
	list     []prompt.Agent
}

func newDirectory(cfg registry.Config) *directory {
	d := &directory{index: router.New(&router.Options{Now: cfg.Now})}
	told := cfg.OnEvent
	cfg.OnEvent = func(e registry.Event) {
		d.update(e.Record)
		if told != nil {
			told(e)
		}
	}
	d.registry = registry.New(cfg)
	for _, r := range d.registry.Snapshot().Agents() { // well known
		d.update(r)
	}
	return d
}

// update lets the index know what became of an agent.
func (d *directory) update(r *registry.Record) {
	if r.Routable() {
		d.index.Put(r.ID, r.Card)
	} else {
		d.index.Remove(r.ID)
	}
}

// routable returns the agents that may be given work, in the order of their ids. The slice is shared and never written to.
func (d *directory) routable() []prompt.Agent {
	s := d.registry.Snapshot()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s != d.snapshot {
		d.snapshot, d.list = s, promptAgents(s)
	}
	return d.list
}

// promptAgents returns the agents that may be given work, as a prompt shows them.
func promptAgents(s *registry.Snapshot) []prompt.Agent {
	records := s.Routable()
	list := make([]prompt.Agent, len(records))
	for i, r := range records {
		list[i] = prompt.Agent{ID: r.ID, Card: r.Card, Seen: !r.LastSeen.IsZero()}
	}
	return list
}
