package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	flakyID     = "flaky"
	sleeperID   = "sleeper"
	passing     = 8                      // agents that come and go, under this many names
	passingIn   = 4                      // of them present
	passEvery   = 500 * time.Millisecond // interval at which one leaves, one comes, and one card changes
	sleeperTime = time.Second            // of a task of an agent that never does one
)

// passingID returns the id of the passing agent with this number.
func passingID(i int) string { return fmt.Sprintf("passing_%d", i%passing+1) }

// hire runs the agents of a soak until ctx ends, and returns when the permanent ones can be given work.
func (s *soak) hire(ctx context.Context, g *errgroup.Group) error {
	var asked atomic.Int64
	retries := 1
	flaky := agentcard.Attach(soakCard(flakyID, 0), &agentcard.Spec{Limits: agentcard.Limits{MaxRetries: &retries}})
	sleeper := agentcard.Attach(soakCard(sleeperID, 0), &agentcard.Spec{Limits: agentcard.Limits{TaskTimeout: sleeperTime}})
	g.Go(func() error {
		return s.serve(ctx, flaky, func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			if n, _ := t.Message.Metadata[transport.MetaAttempt].(float64); n <= 1 && asked.Add(1)%3 == 1 { // then it is tried again
				return nil, fmt.Errorf("not today: %s", t.Text())
			}
			return agents.Text(t.Text()), nil
		})
	})
	g.Go(func() error {
		return s.serve(ctx, sleeper, func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	})
	g.Go(func() error { return s.comeAndGo(ctx) })
	want := len(s.n.agents) + soakFleet + 2 + passingIn
	return s.n.await(startTimeout, "the agents did not come up", func(context.Context) (bool, error) { return len(s.n.Routable("")) >= want, nil })
}

// serve runs an agent until ctx ends.
func (s *soak) serve(ctx context.Context, card *a2a.AgentCard, h agents.Handler) error {
	return agents.Serve(ctx, s.n.agentBus, card, h, &agents.Options{Concurrency: agentConcurrency})
}

// soakCard returns a card that differs in each revision.
func soakCard(id string, revision int) *a2a.AgentCard {
	return &a2a.AgentCard{
		Name: id, Version: fmt.Sprintf("1.%d.0", revision), Description: fmt.Sprintf("Is here for the %d. time", revision+1),
		Skills: []a2a.AgentSkill{{ID: id, Name: "Do what " + id + " does", Description: "What only " + id + " can do"}},
	}
}

// comeAndGo makes agents join and leave, each under its old name with a new card, until ctx ends.
func (s *soak) comeAndGo(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	var leave []context.CancelFunc
	for i := 0; ; i++ {
		if len(leave) == passingIn {
			leave[0]()
			leave = leave[1:]
		}
		stay, cancel := context.WithCancel(ctx)
		leave = append(leave, cancel)
		g.Go(func() error {
			defer cancel()
			defer s.came.Add(1)
			return s.serve(stay, soakCard(passingID(i), i), func(_ context.Context, t *agents.Task) (*agents.Result, error) { return agents.Text(t.Text()), nil })
		})
		if rest.For(ctx, passEvery) != nil {
			return g.Wait()
		}
	}
}

// change changes the cards of the fleet one after the other, and removes some for a while.
func (s *soak) change(ctx, more context.Context) error {
	for i := 0; ; i++ {
		if rest.For(more, passEvery) != nil {
			return ctx.Err()
		}
		card := fleetCard(i % soakFleet)
		card.Version = fmt.Sprintf("1.%d.0", i)
		c := &transport.Card{Card: card, TTL: cardTTL}
		if i%5 == 4 {
			c = &transport.Card{Gone: transport.GoneLeft}
		}
		if err := announceAs(ctx, s.n.agentBus, card.Name, c); err != nil {
			return err
		}
		s.changed.Add(1)
	}
}
