package registry

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Snapshot is what a Registry knew at one moment. It never changes; readers share it.
type Snapshot struct {
	agents, routable   []*Record
	changes, sightings uint64
	built              time.Time
	abilities          func() []Ability // made when it is first asked for
}

// Agents returns all agents in the order of their ids. The slice is shared: it is not to be written to.
func (s *Snapshot) Agents() []*Record { return s.agents }

// Routable returns the agents that may be given work (see [Record.Routable]), in the order of their ids. The slice is
// shared: it is not to be written to.
func (s *Snapshot) Routable() []*Record { return s.routable }

// Get returns the agent with this id, and whether there is one.
func (s *Snapshot) Get(id string) (*Record, bool) {
	i, ok := slices.BinarySearchFunc(s.agents, id, func(r *Record, id string) int { return cmp.Compare(r.ID, id) })
	if !ok {
		return nil, false
	}
	return s.agents[i], true
}

// Snapshot returns what the registry knows now: every change that was applied before is in it, while LastSeen and
// ExpiresAt of what was merely seen again may be a second behind. It takes no lock unless something has changed; then
// the first reader builds the snapshot for all, however many cards came in between.
func (r *Registry) Snapshot() *Snapshot {
	if s := r.snapshot.Load(); r.fresh(s) {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.snapshot.Load()
	if !r.fresh(s) {
		s = r.build()
		r.snapshot.Store(s)
	}
	return s
}

func (r *Registry) fresh(s *Snapshot) bool {
	return s.changes == r.changes.Load() && (s.sightings == r.sightings.Load() || r.cfg.Now().Sub(s.built) < seenLag)
}

// build makes a snapshot. Records are made anew only for agents that something happened to.
func (r *Registry) build() *Snapshot {
	s := &Snapshot{
		agents: make([]*Record, len(r.order)), routable: make([]*Record, 0, len(r.order)),
		changes: r.changes.Load(), sightings: r.sightings.Load(), built: r.cfg.Now(),
	}
	for i, a := range r.order {
		rec := a.view().record
		s.agents[i] = rec
		if rec.Routable() {
			s.routable = append(s.routable, rec)
		}
	}
	s.abilities = sync.OnceValue(func() []Ability { return abilities(s.agents) })
	return s
}
