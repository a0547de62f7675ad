package cortex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// crowded returns the world's agents, and hundreds that state to do the same better.
func crowded(pattern string) func(string) []prompt.Agent {
	agents := with(pattern)("")
	sure := 1.0
	for i := range 300 {
		id := fmt.Sprintf("crowd%03d", i)
		c := &a2a.AgentCard{Name: id, Skills: []a2a.AgentSkill{{ID: "skill", Name: "Skill"}}}
		c = agentcard.Attach(c, &agentcard.Spec{Patterns: []string{pattern}, Abilities: map[string]agentcard.Ability{"skill": {Confidence: &sure}}})
		agents = append(agents, prompt.Agent{ID: id, Seen: true, Card: c})
	}
	slices.SortFunc(agents, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	return func(string) []prompt.Agent { return agents }
}

// Rules by which the crowd may not be asked.
var uncrowded = map[string]string{
	"denied":    `{agents: ["crowd*"], allow: false}`,
	"consented": `{agents: ["crowd*"], confirm: true}`,
}

// TestCrowdInAuction: agents that are denied or need a yes do not keep the others from bidding, however many and sure of themselves they are.
func TestCrowdInAuction(t *testing.T) {
	for name, rule := range uncrowded {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.start(cortex.Config{Decider: sold, Agents: crowded(agentcard.MarketBidding), Policy: rulesOf(t, "rules: ["+rule+"]")})
				w.market(map[string]bidder{"alpha": bids(0.5), "beta": bids(0.9), "gamma": bids(0.7)})
				w.serveAgents()
				w.say("m1", "go")
				pass(2 * time.Second)
				w.wantAnswer("m1", "beta COMPLETED did a; ")
			})
		})
	}
}

// TestCrowdInSwarm is the same for agents that do a task together.
func TestCrowdInSwarm(t *testing.T) {
	for name, rule := range uncrowded {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.swarm([]string{"1 1 1"})
				w.start(cortex.Config{Decider: swarming, Agents: crowded(agentcard.SwarmPeer), Policy: rulesOf(t, `rules: [{agents: ["*"], swarm: {}}, `+rule+"]")})
				w.say("m1", "go")
				pass(time.Second)
				if got := w.answers()["m1"]; !strings.HasSuffix(got, "and 3 of them agree.)") {
					t.Errorf("answer %q, want one of 3 agents", got)
				}
			})
		})
	}
}

// TestCrowdForRetry is the same for an agent that gets the task of another one.
func TestCrowdForRetry(t *testing.T) {
	for name, rule := range uncrowded {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.start(cortex.Config{Decider: once(toAlpha), Agents: crowded(agentcard.CoordinatorManaged), Policy: rulesOf(t, "rules: ["+rule+"]")})
				w.say("m1", "go")
				id := w.onlyTask("alpha")
				pass(5 * time.Minute)
				if w.onlyTask("beta") != id {
					t.Error("beta does not have the task")
				}
			})
		})
	}
}

// TestFullCrowdForRetry is the same where the others have as many tasks as they may have at once.
func TestFullCrowdForRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(results(t))
			}
			return delegate(llm.Delegation{ID: "1", Agent: t.User, Skill: "skill", Task: "work"})
		})
		all := crowded(agentcard.CoordinatorManaged)("")
		for i := range all {
			if strings.HasPrefix(all[i].ID, "crowd") {
				spec := *agentcard.SpecOf(all[i].Card)
				spec.Limits.TaskTimeout = time.Hour
				all[i].Card = agentcard.Attach(all[i].Card, &spec)
			}
		}
		w.start(cortex.Config{
			Decider: d, Agents: func(string) []prompt.Agent { return all }, Policy: rulesOf(t, `rules: [{agents: ["crowd*"], at_once: 1}]`),
		})
		for i := range 300 {
			id := fmt.Sprintf("crowd%03d", i)
			w.sayIn(id, id, id)
		}
		w.say("m1", "alpha")
		id := w.onlyTask("alpha")
		pass(5 * time.Minute)
		if w.onlyTask("beta") != id {
			t.Error("beta does not have the task")
		}
	})
}
