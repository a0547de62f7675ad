package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// BenchmarkPermit measures a decision among 10,000 agents under 100 rules.
func BenchmarkPermit(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&text, "- {agents: [\"team%d-*\"], from: [\"user*\"], allow: false}\n", i)
	}
	p, err := policy.Parse("bench", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	var agents []prompt.Agent
	for i := range 10000 {
		card := &a2a.AgentCard{Skills: []a2a.AgentSkill{{ID: "skill"}}}
		agents = append(agents, prompt.Agent{ID: fmt.Sprintf("team%03d-%05d", i/50, i), Card: card})
	}
	m := New(Config{Policy: func() *policy.Policy { return p }})
	for b.Loop() {
		d := &decision{
			m: m, conv: conversation.NewConversation("", "c"), turn: &conversation.Turn{From: "user"}, entry: new(conversation.Entry), all: agents,
		}
		if d.permit(); len(d.agents) == 0 {
			b.Fatal("no agent is left")
		}
	}
}
