package registry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// known is what can be known about an agent, in comparable form.
type known struct {
	State, Card, Skills string
	Instances           int
}

// truth is a simple model of the present agents.
type truth map[string]map[string]*process

type process struct {
	heartbeat, ttl time.Duration
	heard          time.Time
	card           int // number of its card
	since          int // when it first announced it
	draining       bool
}

func (p *process) dead(now time.Time) bool {
	if p.heartbeat > 0 {
		return now.Sub(p.heard) >= 3*p.heartbeat
	}
	return p.ttl > 0 && now.Sub(p.heard) > p.ttl+5*time.Second
}

// sweep removes the dead.
func (m truth) sweep(now time.Time) {
	for _, instances := range m {
		maps.DeleteFunc(instances, func(_ string, p *process) bool { return p.dead(now) })
	}
}

// known returns what should be known about the present agents.
func (m truth) known() map[string]known {
	all := map[string]known{}
	for id, instances := range m {
		var best *process
		for _, p := range instances {
			switch {
			case best == nil,
				best.draining && !p.draining,
				best.draining == p.draining && best.since < p.since:
				best = p
			}
		}
		if best == nil {
			continue
		}
		state := "active"
		if best.draining {
			state = "draining"
		}
		c := stormCard(id, best.card)
		all[id] = known{state, c.Description, skillIDs(c), len(instances)}
	}
	return all
}

func stormCard(id string, version int) *a2a.AgentCard {
	c := &a2a.AgentCard{Name: id, Description: fmt.Sprint("v", version)}
	for i := range 1 + version%3 {
		c.Skills = append(c.Skills, a2a.AgentSkill{ID: fmt.Sprint("s", (version/2+i)%5)})
	}
	return c
}

func skillIDs(c *a2a.AgentCard) string {
	ids := make([]string, len(c.Skills))
	for i, s := range c.Skills {
		ids[i] = s.ID
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " ")
}

// story is what a listener knows that only uses the kinds of events.
type story map[string]known

func (s story) hear(t *testing.T, e registry.Event) {
	k, there := s[e.AgentID]
	if there == (e.Kind == registry.EventRegistered) {
		t.Errorf("%s of %s, which is there: %v", e.Kind, e.AgentID, there)
	}
	switch e.Kind {
	case registry.EventRegistered:
		k = known{Card: e.Record.Card.Description, Skills: skillIDs(e.Record.Card), Instances: 1}
	case registry.EventDeregistered:
		delete(s, e.AgentID)
		return
	case registry.EventUpdated:
		k.Card = e.Record.Card.Description
	case registry.EventCapabilities:
		set := map[string]bool{}
		for _, id := range strings.Fields(k.Skills) {
			set[id] = true
		}
		for _, id := range e.Added {
			set[id] = true
		}
		for _, id := range e.Removed {
			delete(set, id)
		}
		k.Skills = strings.Join(slices.Sorted(maps.Keys(set)), " ")
	case registry.EventJoined:
		k.Instances++
	case registry.EventLeft:
		k.Instances--
	}
	k.State = string(e.Record.State)
	s[e.AgentID] = k
}

// TestTenThousand lets ten thousand agents join, change, drain, leave, expire and fall silent for a minute with concurrent readers: in the end the snapshot
// and the listener's knowledge equal the model.
func TestTenThousand(t *testing.T) {
	const agents, perSecond = 10_000, 400
	random := rand.New(rand.NewPCG(4, 2))
	model, told := truth{}, story{}
	var clock sync.Mutex
	now := epoch
	r := registry.New(registry.Config{
		Tenant: "t",
		Now: func() time.Time {
			clock.Lock()
			defer clock.Unlock()
			return now
		},
		OnEvent: func(e registry.Event) { told.hear(t, e) },
	})
	r.Apply(&transport.Event{Tenant: "t", Payload: &transport.Synced{}})

	look := make(chan struct{}, 2) // an element when readers should look again
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range look {
				s := r.Snapshot()
				for i, a := range s.Agents() {
					if i > 0 && s.Agents()[i-1].ID >= a.ID || a.State == registry.StateGone || a.Card == nil || len(a.Instances) == 0 {
						t.Errorf("a snapshot has %+v in place %d", a, i)
						return
					}
				}
				for _, a := range s.Routable() {
					if a.State != registry.StateActive {
						t.Errorf("%s is routable and %s", a.ID, a.State)
						return
					}
				}
			}
		})
	}

	step := 0
	announce := func(id, instance string, p *process) {
		p.heard = now
		r.Apply(cardEvent(&transport.Card{
			AgentID: id, Instance: instance, Card: stormCard(id, p.card), TTL: p.ttl, Heartbeat: p.heartbeat, Draining: p.draining,
		}))
	}
	join := func(id, instance string) {
		p := &process{card: random.IntN(3), since: step}
		switch random.IntN(4) {
		case 0:
			p.heartbeat = 5 * time.Second
		case 1:
			p.ttl = 10 * time.Second
		case 2:
			p.heartbeat, p.ttl = 10*time.Second, time.Hour
		}
		if model[id] == nil {
			model[id] = map[string]*process{}
		}
		model[id][instance] = p
		announce(id, instance, p)
	}
	for i := range agents {
		step++
		join(fmt.Sprint("a", i), "1")
	}
	for second := range 60 {
		for range perSecond {
			if step++; step%100 == 0 {
				select {
				case look <- struct{}{}:
				default: // they are still looking
				}
			}
			id, instance := fmt.Sprint("a", random.IntN(agents)), fmt.Sprint(1+random.IntN(2))
			p := model[id][instance]
			if p == nil {
				join(id, instance)
				continue
			}
			switch random.IntN(8) {
			case 0:
				p.card, p.since = p.card+1, step
				announce(id, instance, p)
			case 1:
				p.draining = !p.draining
				announce(id, instance, p)
			case 2, 3:
				gone := transport.GoneLeft
				if random.IntN(2) == 0 {
					gone = transport.GoneExpired
				}
				delete(model[id], instance)
				r.Apply(cardEvent(&transport.Card{AgentID: id, Instance: instance, Gone: gone}))
			default:
				announce(id, instance, p)
			}
		}
		clock.Lock()
		now = now.Add(time.Second)
		clock.Unlock()
		if second%5 == 4 {
			r.Sweep(now)
			model.sweep(now)
		}
	}
	close(look)
	readers.Wait()

	got := map[string]known{}
	for _, a := range r.Snapshot().Agents() {
		got[a.ID] = known{string(a.State), a.Card.Description, skillIDs(a.Card), len(a.Instances)}
	}
	want := model.known()
	if len(want) < agents/10 || len(want) == agents {
		t.Errorf("%d agents are left, which proves little", len(want))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the snapshot is not the truth (-want +got):\n%.2000s", d)
	}
	if d := cmp.Diff(want, map[string]known(told)); d != "" {
		t.Errorf("the events do not tell the truth (-want +got):\n%.2000s", d)
	}
}
