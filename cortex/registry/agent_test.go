package registry_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestVersionsSideBySide checks that of two versions of an agent the higher one represents it, in whatever order a reader gets them: all registries
// agree, including later ones that get the retained cards.
func TestVersionsSideBySide(t *testing.T) {
	announce := func(instance, version string) *transport.Event {
		card := agentCard("echo", "version "+version)
		card.Version = version
		return cardEvent(&transport.Card{AgentID: "echo", Instance: instance, Card: card, TTL: ttl})
	}
	for _, order := range [][]*transport.Event{
		{announce("1", "1.9.0"), announce("2", "1.10.0")},
		{announce("2", "1.10.0"), announce("1", "1.9.0")},
	} {
		r := registry.New(registry.Config{Tenant: "t"})
		for _, e := range order {
			r.Apply(e)
		}
		if a, ok := r.Snapshot().Get("echo"); !ok || a.Version != "1.10.0" || a.Card.Description != "version 1.10.0" {
			t.Errorf("the agent is %+v, want version 1.10.0", a)
		}
	}
}
