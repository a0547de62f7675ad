package decide

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestBestOfMany checks that of thousands of agents that state a skill each is weighed once, and few are looked at closely, the most confident first: a
// card may have hundreds of schemas.
func TestBestOfMany(t *testing.T) {
	const n = 5000
	weighed := map[string]int{}
	d := &decision{m: &Maker{cfg: Config{Record: func(agent, _ string) learn.Record {
		weighed[agent]++
		return learn.Record{}
	}}}}
	var agents []prompt.Agent
	for _, i := range rand.Perm(n) {
		confidence := float64(i) / n
		c := &a2a.AgentCard{Name: fmt.Sprint(i), Skills: []a2a.AgentSkill{{ID: "other"}, {ID: "paint"}}}
		c = agentcard.Attach(c, &agentcard.Spec{Abilities: map[string]agentcard.Ability{"paint": {Confidence: &confidence}}})
		agents = append(agents, prompt.Agent{ID: c.Name, Card: c})
	}
	agents = append(agents, prompt.Agent{ID: "without a card"}, prompt.Agent{ID: "without the skill", Card: &a2a.AgentCard{}})
	asked := 0
	odd := func(a *prompt.Agent) bool {
		asked++
		return (a.ID[len(a.ID)-1]-'0')%2 == 1
	}
	best := d.best(agents, "paint", 3, func(a *prompt.Agent) bool { return a.ID != "4997" }, odd)
	var ids []string
	for _, a := range best {
		ids = append(ids, a.ID)
	}
	if want := "[4999 4995 4993]"; fmt.Sprint(ids) != want {
		t.Errorf("the best are %v, want %s", ids, want)
	}
	asked = 0
	all, none := func(*prompt.Agent) bool { return true }, func(*prompt.Agent) bool { asked++; return false }
	if d.best(agents, "paint", 3, all, none) != nil || asked > maxFitting {
		t.Errorf("of %d agents, none of which fits, %d are looked at closely; want at most %d", n, asked, maxFitting)
	}
	if len(weighed) != n || weighed["1"] != 2 || weighed["4998"] != 2 {
		t.Errorf("%d agents were weighed, one %d times and another %d times for two searches, want once for each", len(weighed), weighed["1"], weighed["4998"])
	}
}
