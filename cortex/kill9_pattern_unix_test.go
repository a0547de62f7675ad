//go:build unix

package cortex_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestKill9WhileBidding kills the process at each step of a turn whose agents bid for the task.
func TestKill9WhileBidding(t *testing.T) {
	t.Parallel()
	bid := map[string]float64{"alpha": 0.2, "beta": 0.7, "gamma": 0.5}
	serve := func(t *testing.T, bus transport.Transport) {
		servePattern(t, bus, agentcard.MarketBidding, func(id string) *agents.Options {
			return &agents.Options{Bid: func(context.Context, *transport.Tender) (*transport.Bid, error) {
				return &transport.Bid{Confidence: bid[id]}, nil
			}}
		})
	}
	kill9AtEveryStep(t, "bids", serve, regexp.MustCompile("^(alpha|beta|gamma) COMPLETED did work; $"), 2, func(store *jetstore.Store, turns int) {
		won := 0
		for _, e := range entries(t, store) {
			if e.Patterns != nil && len(e.Patterns.Auctions) == 1 && len(e.Patterns.Auctions[0].Bids) == 3 {
				won++
			}
		}
		if won != turns {
			t.Errorf("the log has %d auctions of %d turns", won, turns)
		}
	})
}

// servePattern runs the world's agents, which outlive the children.
func servePattern(t *testing.T, bus transport.Transport, pattern string, options func(id string) *agents.Options) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, len(agentIDs))
	for _, id := range agentIDs {
		go func() {
			card := &a2a.AgentCard{Name: id, Version: "1.0.0", Skills: []a2a.AgentSkill{{ID: "skill", Name: "Skill"}}}
			card = agentcard.Attach(card, &agentcard.Spec{Patterns: []string{pattern}})
			done <- agents.Serve(ctx, bus, card, agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
				return agents.Text("did " + task.Text()), nil
			}), options(id))
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range agentIDs {
			<-done
		}
	})
}
