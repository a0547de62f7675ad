package gemini_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestDecider makes a decision in each mode, over the wire.
func TestDecider(t *testing.T) {
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	const reply = `{"kind":"delegate","say":"Let me look.","delegations":[{"id":"1","agent":"agent_clock","skill":null,"task":"What time is it?","input":null,"depends_on":[]}],"reason":"The clock knows."}`
	for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt} {
		for _, project := range []string{"", "project-1"} {
			t.Run(string(mode)+" "+project, func(t *testing.T) {
				server := geminitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
					if last := c.Messages[len(c.Messages)-1].Text(); !strings.Contains(c.System, "agent_clock") || !strings.Contains(last, "What time is it") {
						t.Errorf("the model got the instructions\n%s\nand the message\n%s", c.System, last)
					}
					return &llmtest.Reply{Pieces: []string{reply[:30], reply[30:60], reply[60:]}, Usage: llm.Usage{Input: 100, Cached: 40, Output: 20}, Thoughts: "Hm."}
				})
				d := llm.NewDecider(dial(t, server.URL, project, llmtest.Options{Key: key, Mode: mode}), templates, nil)
				var said strings.Builder
				got, err := d.Decide(t.Context(), &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{
					User: "What time is it?", Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), MaxParallel: 4,
					Agents: []prompt.Agent{{ID: "agent_clock", Seen: true, Card: &a2a.AgentCard{Name: "Clock", Description: "tells the time"}}},
				}}, func(text string) { said.WriteString(text) })
				if err != nil {
					t.Fatal(err)
				}
				want := &llm.Decision{
					Kind: llm.KindDelegate, Say: "Let me look.", Reason: "The clock knows.", Model: llmtest.Model, Usage: llm.Usage{Input: 100, Cached: 40, Output: 20},
					Delegations: []llm.Delegation{{ID: "1", Agent: "agent_clock", Task: "What time is it?"}},
				}
				if diff := cmp.Diff(want, got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
					t.Errorf("decision (-want +got):\n%s", diff)
				}
			})
		}
	}
}
