package agents_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestBid(t *testing.T) {
	card := func(patterns ...string) *a2a.AgentCard {
		sure := 0.75
		c := &a2a.AgentCard{Version: "1.0.0", Skills: []a2a.AgentSkill{{ID: "say", Name: "Say"}, {ID: "sing", Name: "Sing"}}}
		return agentcard.Attach(c, &agentcard.Spec{Patterns: patterns, Abilities: map[string]agentcard.Ability{"say": {Confidence: &sure}}})
	}
	says := func(b *transport.Bid, err error) *agents.Options {
		return &agents.Options{Bid: func(_ context.Context, got *transport.Tender) (*transport.Bid, error) {
			if got.Skill != "say" || got.Task != "hello" {
				t.Errorf("asked for %+v", got)
			}
			return b, err
		}}
	}
	for _, test := range []struct {
		name string
		card *a2a.AgentCard
		o    *agents.Options
		want *transport.Bid
	}{
		{"by the card", card(agentcard.MarketBidding), nil, &transport.Bid{Confidence: 0.75}},
		{"a card without the pattern", card(), nil, &transport.Bid{Declined: true}},
		{"by the function", card(), says(&transport.Bid{Confidence: 0.5, Cost: 2, Seconds: 3, Tender: "x"}, nil), &transport.Bid{Confidence: 0.5, Cost: 2, Seconds: 3}},
		{"declined", card(), says(nil, nil), &transport.Bid{Declined: true}},
		{"an error", card(), says(nil, errors.New("no")), nil},
		{"a panic", card(), &agents.Options{Bid: func(context.Context, *transport.Tender) (*transport.Bid, error) { panic("no") }}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := agentstest.ServeWith(t, agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) { return nil, nil }), test.card, test.o)
				got := c.Bid("say", "hello")
				if got != nil {
					its := *got
					its.Tender = ""
					got = &its
				}
				if d := cmp.Diff(test.want, got); d != "" {
					t.Errorf("bid (-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestBusyBids has an agent without a free place decline, and bid again when it has one.
func TestBusyBids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		card := agentcard.Attach(&a2a.AgentCard{}, &agentcard.Spec{Patterns: []string{agentcard.MarketBidding}})
		c := agentstest.ServeWith(t, agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
			<-hold
			return nil, nil
		}), card, &agents.Options{Concurrency: 1})
		done := make(chan struct{})
		go func() { defer close(done); c.Do("work") }()
		synctest.Wait()
		if b := c.Bid("", "x"); b == nil || !b.Declined {
			t.Errorf("the busy agent bids %+v, want that it declines", b)
		}
		close(hold)
		<-done
		synctest.Wait()
		if b := c.Bid("", "x"); b == nil || b.Declined || b.Confidence != 0.5 {
			t.Errorf("the idle agent bids %+v, want 0.5", b)
		}
	})
}
