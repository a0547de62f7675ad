//go:build unix

package cortex_test

import (
	"context"
	"flag"
	"regexp"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

var everyStep = flag.Bool("everystep", false, "kill the process at each step of a turn with patterns, and not at one in four; takes minutes")

// bothPatterns are the agents' cards: all bid for skill, and are peers in swarms for chorus.
func bothPatterns(string) []prompt.Agent {
	there := offered("")
	for i := range there {
		card := *there[i].Card
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: "chorus", Name: "Chorus"})
		there[i].Card = agentcard.Attach(&card, &agentcard.Spec{Patterns: []string{agentcard.MarketBidding, agentcard.SwarmPeer}})
	}
	return there
}

func patternConfig(cfg cortex.Config) cortex.Config {
	cfg.Agents = bothPatterns
	p, err := policy.Parse("policy.yaml", []byte(`rules: [{agents: ["*"], skills: [chorus], swarm: {}}]`))
	if err != nil {
		panic(err)
	}
	cfg.Policy = func() *policy.Policy { return p }
	return cfg
}

// bidThenSwarm is a decider that gives out the first task to the best bid, and the second one to a swarm.
var bidThenSwarm = simple(func(t *llm.Turn) *llm.Decision {
	switch len(t.Steps) {
	case 0:
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: t.User})
	case 1:
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "chorus", Task: "sing"})
	}
	return respond(results(t))
})

// TestKill9InPatterns kills the process at each step of a turn whose agents bid for a task, and then do one together in two rounds. An agent that has lost
// its connection does not bid, so that others win.
func TestKill9InPatterns(t *testing.T) {
	t.Parallel()
	stride := 4 // TestKilledInPattern has each step
	if *everyStep {
		stride = 1
	}
	want := regexp.MustCompile(`^alpha COMPLETED sung; beta COMPLETED sung; gamma COMPLETED sung; \n\n\(3 agents worked on this for 2 rounds, and 3 of them agree\.\)$`)
	kill9AtEveryStep(t, "patterns", servePatterns, want, 8, stride, func(store *jetstore.Store, turns int) {
		won, rounds := 0, 0
		for _, e := range entries(t, store) {
			if e.Patterns != nil && len(e.Patterns.Auctions) == 1 && len(e.Patterns.Auctions[0].Bids) == 3 {
				won++
			}
			if e.Patterns != nil && e.Patterns.Ended == conversation.SwarmAgreed {
				rounds++
			}
		}
		if won != turns || rounds != turns {
			t.Errorf("the log has %d auctions and %d swarms that agreed, of %d turns", won, rounds, turns)
		}
	})
}

// servePatterns runs the world's agents, which outlive the children.
func servePatterns(t *testing.T, bus transport.Transport) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, len(agentIDs))
	bid := map[string]float64{"alpha": 0.2, "beta": 0.7, "gamma": 0.5}
	for _, a := range bothPatterns("") {
		go func() {
			card := *a.Card
			card.Version = "1.0.0"
			done <- agents.Serve(ctx, bus, &card, agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
				switch {
				case task.Skill != "chorus":
					return agents.Text("did " + task.Text()), nil
				case strings.Contains(task.Text(), "round 2"):
					return agents.Text("sung"), nil
				}
				return agents.Text("sung by " + a.ID), nil
			}), &agents.Options{Bid: func(context.Context, *transport.Tender) (*transport.Bid, error) {
				return &transport.Bid{Confidence: bid[a.ID]}, nil
			}})
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range agentIDs {
			<-done
		}
	})
}
