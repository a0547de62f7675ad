package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	cardTTL       = time.Hour        // longer than a measurement: these cards are not refreshed unless stated
	heartbeat     = 30 * time.Second // the default of agents
	cardPublishes = 16               // concurrent
)

var (
	cardVerbs  = []string{"translate", "summarise", "plan", "book", "compare", "measure", "draw", "repair", "price", "forecast", "audit", "schedule"}
	cardThings = []string{
		"invoices", "train journeys", "contracts", "gardens", "recipes", "radio plays", "bridges", "sailing trips", "tax returns", "x-ray images",
		"street maps", "court rulings", "beehives", "lesson plans", "wind turbines", "museum tours",
	}
	cardPlaces = []string{"Lisbon", "Oslo", "Accra", "Lima", "Hanoi", "Perth", "Quebec", "Turin", "Izmir", "Dakar", "Cork", "Osaka", "Bergen"}
)

// fleetCard returns the card of an agent of a fleet, with a realistic size and wording.
func fleetCard(i int) *a2a.AgentCard {
	pick := func(list []string, step int) string { return list[i/step%len(list)] }
	verb, thing, place := pick(cardVerbs, 1), pick(cardThings, len(cardVerbs)), pick(cardPlaces, 7)
	modes := []string{"text/plain"}
	return &a2a.AgentCard{
		Name: fmt.Sprintf("fleet_%05d", i+1), Version: "1.0.0", Description: fmt.Sprintf("Helps people in %s to %s %s, with the rules and prices of the year", place, verb, thing),
		DefaultInputModes: modes, DefaultOutputModes: modes, SupportedInterfaces: []*a2a.AgentInterface{},
		Skills: []a2a.AgentSkill{
			{
				ID: "do", Name: verb + " " + thing, Description: fmt.Sprintf("Can %s %s for customers in %s and around it", verb, thing, place),
				Tags: []string{verb, place}, Examples: []string{fmt.Sprintf("Please %s my %s", verb, thing)}, InputModes: modes, OutputModes: modes,
			},
			{
				ID: "explain", Name: "explain " + thing, Description: fmt.Sprintf("Explains what has to be known about %s", thing),
				Tags: []string{thing}, Examples: []string{}, InputModes: modes, OutputModes: modes,
			},
		},
	}
}

// announce publishes a card as the agents' kit does.
func announce(ctx context.Context, tr transport.Transport, card *a2a.AgentCard) error {
	return announceAs(ctx, tr, card.Name, &transport.Card{Card: card, TTL: cardTTL})
}

// announceAs publishes a card of an agent.
func announceAs(ctx context.Context, tr transport.Transport, id string, c *transport.Card) error {
	now := time.Now()
	c.AgentID, c.Instance = id, "bench"
	err := tr.Publish(ctx, transport.Cards(""), &transport.Event{ID: fmt.Sprintf("%s-%d", id, now.UnixNano()), Time: now, From: id, Payload: c})
	if err != nil {
		return fmt.Errorf("announce %s: %w", id, err)
	}
	return nil
}

// announceFleet announces agents on a node and waits until the registry has them.
func (n *node) announceFleet(count int, progress Progress) error {
	what := plural(count, "agent")
	var done atomic.Int64
	g, ctx := errgroup.WithContext(n.ctx)
	g.SetLimit(cardPublishes)
	for i := range count {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			progress.tell(what, int(done.Add(1)), count)
			return announce(ctx, n.agentBus, fleetCard(i))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	want := count + len(n.agents)
	return n.await(defaultLimit, what+" are not all in the registry", func(context.Context) (bool, error) { return len(n.Routable("")) >= want, nil })
}

// noted waits until the registry has stored all agents that it knows.
func (n *node) noted() error {
	want := len(n.Routable(""))
	return n.await(5*defaultLimit, "the agents are not all written down", func(ctx context.Context) (bool, error) {
		have := 0
		for _, err := range n.store.Notes(ctx, "", storage.NoteAgent) {
			if err != nil {
				return false, err
			}
			have++
		}
		return have >= want, nil
	})
}

// beat announces the fleet at the rate of its heartbeats, while on is set, until ctx ends.
func (n *node) beat(ctx context.Context, count int, on *atomic.Bool) error {
	if count == 0 {
		return nil
	}
	tick := time.NewTicker(heartbeat / time.Duration(count))
	defer tick.Stop()
	for i := 0; ; {
		select {
		case <-tick.C:
			if on.Load() {
				if err := announce(ctx, n.agentBus, fleetCard(i%count)); err != nil && ctx.Err() == nil {
					return err
				}
				i++
			}
		case <-ctx.Done():
			return nil
		}
	}
}
