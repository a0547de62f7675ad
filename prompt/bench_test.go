package prompt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// BenchmarkRender renders a long conversation: 40 agents of 3 skills each, and 64 turns with a delegation.
func BenchmarkRender(b *testing.B) {
	tmpl, err := prompt.New("")
	if err != nil {
		b.Fatal(err)
	}
	in := prompt.Input{User: "and now?", Now: now, MaxParallel: 8, Summary: strings.Repeat("They spoke of many things. ", 80)}
	for i := range 40 {
		a := echo()
		a.ID = fmt.Sprint("agent_", i)
		a.Card.Skills = append(a.Card.Skills, a.Card.Skills[0], a.Card.Skills[0])
		in.Agents = append(in.Agents, a)
	}
	in.Listed = in.Agents
	for range 64 {
		in.History = append(in.History, prompt.Turn{
			User:   strings.Repeat("What time is it in Tokyo, and what in Oslo? ", 5),
			Steps:  []prompt.Step{{Tasks: []prompt.Task{clockTask(a2a.TaskStateCompleted, strings.Repeat("It is nine in the morning.\n", 10))}}},
			Answer: strings.Repeat("It is nine in the morning there. ", 10),
		})
	}
	var p *prompt.Prompt
	b.ReportAllocs()
	for b.Loop() {
		if p, err = tmpl.Render(&in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(show(p))), "bytes")
}
