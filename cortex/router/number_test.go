package router_test

import (
	"fmt"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// TestNumbersInNames checks that agents whose names end with a number do not rank before the one that calculates.
func TestNumbersInNames(t *testing.T) {
	x := router.New(nil)
	x.Put("agent_calc", &a2a.AgentCard{Name: "agent_calc", Description: "Does arithmetic", Skills: []a2a.AgentSkill{
		{ID: "calc", Name: "Calculate", Description: "Evaluates an expression", Examples: []string{"what is 17 * 23?", "how much is 15% of 80"}},
	}})
	for i := range 200 {
		name := fmt.Sprintf("report-%d", i)
		x.Put(name, &a2a.AgentCard{Name: name, Description: "Business: reports", Skills: []a2a.AgentSkill{{ID: name, Name: name, Description: "Reports"}}})
	}
	for _, text := range []string{"what is 12*7?", "5 times 3"} {
		hits := x.Search(text, nil)
		if len(hits) == 0 || hits[0].ID != "agent_calc" || hits[0].Score < router.Fits {
			t.Errorf("Search(%q) = %+v, want agent_calc first, and that it fits", text, hits[:min(2, len(hits))])
		}
		if len(hits) > 1 && hits[1].Score >= router.Fits {
			t.Errorf("Search(%q): %+v fits too", text, hits[1])
		}
	}
}
