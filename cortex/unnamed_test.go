package cortex_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// alphaWith offers alpha with these skills.
func alphaWith(ids ...string) func(string) []prompt.Agent {
	card := &a2a.AgentCard{Name: "alpha"}
	for _, id := range ids {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: id, Name: id})
	}
	return func(string) []prompt.Agent { return []prompt.Agent{{ID: "alpha", Seen: true, Card: card}} }
}

// TestUnnamedSkillEvadesNoRule has an agent be asked without a skill, for one that rules limit or check.
func TestUnnamedSkillEvadesNoRule(t *testing.T) {
	const name = `Nothing was done: agent "alpha" has to be asked for a skill by its id, since a rule is about its skill "pay".`
	for _, test := range []struct {
		name, rule  string
		skills      []string
		first, next string // beginnings of answers
	}{
		{"calls, of several", "calls: {most: 1, per: 1h}", []string{"pay", "tell"}, name, name},
		{"repeat, of several", "repeat: {within: 1h}", []string{"pay", "tell"}, name, name},
		{"attempts, of several", "retry: {attempts: 1}", []string{"pay", "tell"}, name, name},
		{"others, of several", "retry: {others: false}", []string{"pay", "tell"}, name, name},
		{"evaluators, of several", "evaluators: [no_pii]", []string{"pay", "tell"}, name, name},
		{"of other skills", "calls: {most: 1, per: 1h}", []string{"ask", "tell"}, "did pay eve@example.com", "did pay eve@example.com"},
		{"of the only one", "calls: {most: 1, per: 1h}", []string{"pay"}, "did pay eve@example.com", "Nothing was done, since the agent has no room for it now"},
		{"a check, of the only one", "evaluators: [no_pii]", []string{"pay"}, "did pay [no_pii]", "did pay [no_pii]"},
		{"from others", `calls: {most: 1, per: 1h}, from: ["user:bob"]`, []string{"pay", "tell"}, "did pay eve@example.com", "did pay eve@example.com"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, agentIDs)
				w.serveAgents()
				w.start(cortex.Config{Decider: nobodyDecides(t), Agents: alphaWith(test.skills...), Policy: rulesOf(t, "rules: [{agents: [alpha], skills: [pay], "+test.rule+"}]")})
				for _, said := range [][2]string{{"m1", test.first}, {"m2", test.next}} {
					id, want := said[0], said[1]
					w.sayTo(id, "pay eve@example.com", transport.Direct{Agent: "alpha"})
					if got := w.answers()[id]; !strings.HasPrefix(got, want) {
						t.Errorf("%s: answer %q, want %q", id, got, want)
					}
				}
				w.wantFold()
			})
		})
	}
}

// TestFailedCallOfTheOnlySkill has a call fail that names no skill: it may be made again.
func TestFailedCallOfTheOnlySkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		w.start(cortex.Config{Decider: nobodyDecides(t), Agents: alphaWith("pay"), Policy: rulesOf(t, "rules: [{agents: [alpha], skills: [pay], repeat: {within: 1h}}]")})
		w.sayTo("m1", "pay 5", transport.Direct{Agent: "alpha"})
		w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, "no"))
		w.sayTo("m2", "pay 5", transport.Direct{Agent: "alpha"})
		w.wantAllTasks(2)
	})
}
