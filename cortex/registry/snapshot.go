package registry

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Snapshot is the content of a Registry at one moment. It is immutable and shared by readers.
type Snapshot struct {
	agents, routable   []*Record
	changes, sightings uint64
	built              time.Time
	abilities          func() []Ability // built on the first call
}

// Agents returns all agents, sorted by id. The slice is shared and read-only.
func (s *Snapshot) Agents() []*Record { return s.agents }

// Routable returns the agents that may be given work (see [Record.Routable]), sorted by id. The slice is shared and read-only.
func (s *Snapshot) Routable() []*Record { return s.routable }

// Get returns the agent with this id, and whether there is one.
func (s *Snapshot) Get(id string) (*Record, bool) {
	i, ok := slices.BinarySearchFunc(s.agents, id, func(r *Record, id string) int { return cmp.Compare(r.ID, id) })
	if !ok {
		return nil, false
	}
	return s.agents[i], true
}

// Snapshot returns the present content of the registry. It has every change that was applied before, but LastSeen and ExpiresAt may be up to a second
// old. It takes no lock unless something has changed; then the first reader builds the snapshot for all, however many cards have arrived.
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

// build makes a snapshot. It makes new records only for agents that have changed.
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
