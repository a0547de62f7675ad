package agents

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// A skill's name becomes its id, and the extension's data about the skill gets the new id.
func TestServedSkillKeepsItsAbility(t *testing.T) {
	card := agentcard.Attach(&a2a.AgentCard{Name: "w", Skills: []a2a.AgentSkill{{Name: "Tell the Weather"}, {ID: "b", Name: "B"}}}, &agentcard.Spec{
		OwnerTeam: "sky", Abilities: map[string]agentcard.Ability{"Tell the Weather": {DispatchKey: "weather"}, "b": {DispatchKey: "bee"}},
	})
	got := agentcard.SpecOf(complete(card))
	want := &agentcard.Spec{OwnerTeam: "sky", Abilities: map[string]agentcard.Ability{"tell_the_weather": {DispatchKey: "weather"}, "b": {DispatchKey: "bee"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
