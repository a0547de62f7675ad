package catalog_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func actor(id, does string) prompt.Agent {
	return prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Description: does, Version: "1"}}
}

func actors(n int) []prompt.Agent {
	var list []prompt.Agent
	for i := range n {
		list = append(list, actor(fmt.Sprintf("agent-%03d", i), "one of many"))
	}
	return list
}

// TestUnchangedAgentsCostNothing checks that detecting changes is free when there are none.
func TestUnchangedAgentsCostNothing(t *testing.T) {
	var known catalog.Catalog
	agents := actors(64)
	first := known.Trim(agents)
	again := slices.Clone(agents) // as a registry returns them: another slice with the same cards
	anew := actors(64)            // as another caller may
	for name, now := range map[string][]prompt.Agent{"same slice": agents, "same cards": again, "same texts": anew} {
		if got := known.Trim(now); &got[0] != &first[0] {
			t.Errorf("%s: another list", name)
		}
		if n := testing.AllocsPerRun(10, func() { known.Trim(now) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
	anew[7] = actor(anew[7].ID, "another")
	changed := known.Trim(anew)
	if &changed[0] == &first[0] || changed[7].Card.Description != "another" || changed[6].Card != first[6].Card {
		t.Error("after a change: want another list that shares what is the same")
	}
}
