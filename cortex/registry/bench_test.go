package registry_test

import (
	"fmt"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

const benchAgents = 10_000

func benchEvents(description string) []*transport.Event {
	events := make([]*transport.Event, benchAgents)
	for i := range events {
		id := fmt.Sprintf("agent-%05d", i*7919%benchAgents)
		events[i] = cardEvent(&transport.Card{AgentID: id, Instance: "1", Card: agentCard(id, description), TTL: ttl})
	}
	return events
}

// BenchmarkJoin measures 10,000 new cards, and one snapshot.
func BenchmarkJoin(b *testing.B) {
	events := benchEvents("an agent of ordinary abilities")
	b.ReportAllocs()
	for b.Loop() {
		r := registry.New(registry.Config{Tenant: "t"})
		for _, e := range events {
			r.Apply(e)
		}
		if got := len(r.Snapshot().Agents()); got != benchAgents {
			b.Fatalf("%d agents, want %d", got, benchAgents)
		}
	}
}

func benchRegistry() (*registry.Registry, []*transport.Event) {
	r, events := registry.New(registry.Config{Tenant: "t"}), benchEvents("a")
	for _, e := range events {
		r.Apply(e)
	}
	return r, events
}

// BenchmarkSeen measures one known card, among 10,000.
func BenchmarkSeen(b *testing.B) {
	r, events := benchRegistry()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Apply(events[i%benchAgents])
	}
}

// BenchmarkSnapshot measures the cost of a reader among 10,000 agents.
func BenchmarkSnapshot(b *testing.B) {
	r, events := benchRegistry()
	changed := benchEvents("b")
	b.Run("same", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.Snapshot()
			}
		})
	})
	b.Run("after a change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.Apply([][]*transport.Event{changed, events}[i/benchAgents%2][i%benchAgents])
			r.Snapshot()
		}
	})
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			r.Snapshot().Get("agent-05000")
		}
	})
}

// BenchmarkStrictLeave measures that one of 5,000 agents with an exclusive ability leaves, while as many are refused for another ability.
func BenchmarkStrictLeave(b *testing.B) {
	r := registry.New(registry.Config{Tenant: "t", StrictAbilities: true})
	own := func(i int) *transport.Card {
		c := agentCard(fmt.Sprint("own", i), "a")
		c.Skills[0].ID = c.Name
		return &transport.Card{AgentID: c.Name, Instance: "1", Card: c}
	}
	for i := range 5000 {
		r.Apply(cardEvent(own(i)))
		id := fmt.Sprint("wants", i)
		r.Apply(cardEvent(&transport.Card{AgentID: id, Instance: "1", Card: agentCard(id, "a")}))
	}
	for b.Loop() {
		r.Apply(cardEvent(&transport.Card{AgentID: "own7", Instance: "1", Gone: transport.GoneLeft}))
		r.Apply(cardEvent(own(7)))
	}
}
