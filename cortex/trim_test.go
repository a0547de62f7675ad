package cortex_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestTrim checks that the log's copy of an agent is small, is shown like the agent itself, and survives the log unchanged.
func TestTrim(t *testing.T) {
	skills := func(n int, s a2a.AgentSkill) (list []a2a.AgentSkill) {
		for range n {
			list = append(list, s)
		}
		return list
	}
	long := strings.Repeat("long ☃ <text>\n", 1000)
	wild := a2a.AgentSkill{
		ID: "s\u200b", Name: " wild\x1b[31m", Description: long, Tags: []string{"", "\x00", "a", long, "b", "c", "d", "e", "f", "g", "h"},
		Examples: []string{" ", "one", "two\xff", "three", "four", "five"}, InputModes: []string{"text/plain"},
	}
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	for name, card := range map[string]*a2a.AgentCard{
		"nil":             nil,
		"empty":           {},
		"named as its id": {Name: "agent", Skills: []a2a.AgentSkill{}},
		"wild": {
			Name: "na\xffme\u202e", Description: long, Version: "1", Provider: &a2a.AgentProvider{Org: "o"}, DefaultInputModes: []string{"text/plain"},
			Skills: []a2a.AgentSkill{wild, {Name: long}, {ID: long, Name: long}, {}, {ID: "x", Tags: []string{}}},
		},
		"many skills":   {Name: "n", Skills: skills(99, a2a.AgentSkill{ID: "s", Name: "skill", Description: "d"})},
		"large skills":  {Name: "n", Skills: skills(60, wild)},
		"exactly shown": {Name: "n", Skills: skills(25, a2a.AgentSkill{ID: "s"})},
		"one more":      {Name: "n", Skills: skills(26, a2a.AgentSkill{ID: "s"})},
	} {
		t.Run(name, func(t *testing.T) {
			a := prompt.Agent{ID: "agent", Card: card, Seen: true}
			trimmed := prompt.Trim(a)
			render := func(a prompt.Agent) string {
				p, err := templates.Render(&prompt.Input{Listed: []prompt.Agent{a}})
				if err != nil {
					t.Fatal(err)
				}
				return p.System
			}
			if diff := cmp.Diff(render(a), render(trimmed)); diff != "" {
				t.Errorf("the prompt of the whole card (-), of the trimmed one (+):\n%s", diff)
			}
			if diff := cmp.Diff(trimmed, prompt.Trim(trimmed)); diff != "" {
				t.Errorf("trimmed once (-), twice (+):\n%s", diff)
			}
			b, err := json.Marshal(trimmed)
			if err != nil {
				t.Fatal(err)
			}
			var logged prompt.Agent
			if err := json.Unmarshal(b, &logged); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(trimmed, logged); diff != "" {
				t.Errorf("before the log (-), after it (+):\n%s", diff)
			}
			if len(b) > 24<<10 {
				t.Errorf("%d bytes are kept", len(b))
			}
			if card != nil && trimmed.Card == card {
				t.Error("the card is not a copy")
			}
		})
	}
	t.Run("very many skills", func(t *testing.T) {
		card := &a2a.AgentCard{Name: "n", Skills: skills(100_000, a2a.AgentSkill{ID: "s"})}
		if n := len(prompt.Trim(prompt.Agent{ID: "a", Card: card}).Card.Skills); n != 100 {
			t.Errorf("%d skills are kept, want 100", n)
		}
	})
}
