package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestQueriesOnTransport checks that agents are found by their properties after any transport, including those that a card has no field for.
func TestQueriesOnTransport(t *testing.T) {
	onEach(t, func(t *testing.T, dial func() transport.Transport) {
		agent, n := dial(), run(t, dial(), registry.Config{})
		for _, p := range shop {
			e := p.event()
			card := e.Payload.(*transport.Card)
			card.TTL = time.Hour
			publish(t, agent, p.id+"/1", *card)
		}
		for len(n.Snapshot().Agents()) < len(shop) {
			n.next()
		}
		direct := registryOf(shop...).Snapshot()
		for _, q := range []registry.Query{
			{},
			{Ability: "product.search"},
			{Tags: []string{"tier=core"}},
			{Tags: []string{"tier"}},
			{Text: "catalog"},
			{Version: ">=1.2.0 <2.0.0"},
			{Owner: "shopping"},
			{States: []registry.State{registry.StateActive}},
			{States: []registry.State{registry.StateDraining}},
			{Limit: 2},
		} {
			want, err := direct.Find(q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.Snapshot().Find(q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
				t.Errorf("Find(%+v) differs from what the cards say (-want +got):\n%s", q, diff)
			}
		}
		for _, a := range direct.Abilities() {
			if want, got := offerers(ability(direct, a.ID)), offerers(ability(n.Snapshot(), a.ID)); got != want {
				t.Errorf("Ability(%q) = %q, want %q", a.ID, got, want)
			}
		}
		if got := offerers(ability(n.Snapshot(), "product.search")); len(strings.Fields(got)) < 2 {
			t.Errorf("product.search is offered by %q, want several", got)
		}
	})
}

// next waits for one event.
func (n *node) next() {
	n.t.Helper()
	select {
	case <-n.events:
	case <-time.After(patience):
		n.t.Fatal("an event did not come")
	}
}
