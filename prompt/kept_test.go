package prompt_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// talk returns an input with a history of many turns.
func talk(kept bool) *prompt.Input {
	agents := []prompt.Agent{{ID: "echo", Card: &a2a.AgentCard{Name: "echo", Description: "says it again"}, Seen: true}}
	in := &prompt.Input{Agents: agents, Listed: agents, User: "and now?", MaxParallel: 4}
	for i := range 32 {
		task := prompt.Task{ID: a2a.TaskID(fmt.Sprint("t", i)), Agent: "echo", Text: fmt.Sprint("say ", i), State: a2a.TaskStateCompleted, Result: fmt.Sprint("said ", i)}
		turn := prompt.Turn{User: fmt.Sprint("question ", i), Steps: []prompt.Step{{Say: "One moment.", Tasks: []prompt.Task{task}}}, Answer: fmt.Sprint("answer ", i)}
		if kept {
			turn.Kept = new(prompt.Kept)
		}
		in.History = append(in.History, turn)
	}
	return in
}

func embedded(t *testing.T) *prompt.Templates {
	t.Helper()
	tmpl, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// TestKept checks that what is kept of turns is what they would be rendered to, whatever has changed since.
func TestKept(t *testing.T) {
	tmpl, other := embedded(t), embedded(t)
	changes := map[string]func(in *prompt.Input){
		"nothing": func(*prompt.Input) {},
		"user":    func(in *prompt.Input) { in.History[3].User = "something else" },
		"answer":  func(in *prompt.Input) { in.History[3].Answer = "something else" },
		"kind":    func(in *prompt.Input) { in.History[3].Kind = "clarify" },
		"reason":  func(in *prompt.Input) { in.History[3].Reason = "because" },
		"files": func(in *prompt.Input) {
			in.History[3].Files = []prompt.File{{Key: "f1", Name: "a.txt", Type: "text/plain", Size: 1}}
		},
		"a result": func(in *prompt.Input) {
			steps := slices.Clone(in.History[3].Steps)
			steps[0].Tasks = []prompt.Task{{ID: "t3", Agent: "echo", Text: "say 3", State: a2a.TaskStateFailed, Result: "no"}}
			in.History[3].Steps = steps
		},
		"an update": func(in *prompt.Input) { in.History[3].Update.Left = []string{"echo"} },
		"an update of results": func(in *prompt.Input) {
			in.History[3].Steps = slices.Clone(in.History[3].Steps)
			in.History[3].Steps[0].Update.Left = []string{"echo"}
		},
		"summary":      func(in *prompt.Input) { in.Summary = "They said much." },
		"choice":       func(in *prompt.Input) { in.Choice = true },
		"reason first": func(in *prompt.Input) { in.ReasonFirst = true },
		"agents": func(in *prompt.Input) {
			in.Listed = append(slices.Clone(in.Listed), prompt.Agent{ID: "b", Card: &a2a.AgentCard{Name: "b"}})
		},
		"parallel":    func(in *prompt.Input) { in.MaxParallel = 2 },
		"fewer turns": func(in *prompt.Input) { in.History = in.History[7:] },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			kept, plain := talk(true), talk(false)
			for range 2 {
				if _, err := tmpl.Render(kept); err != nil {
					t.Fatal(err)
				}
			}
			change(kept)
			change(plain)
			for range 2 {
				got, err := tmpl.Render(kept)
				if err != nil {
					t.Fatal(err)
				}
				want, err := other.Render(plain)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("prompt differs from one that was made anew (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestKeptCosts checks that a longer history is not rendered again.
func TestKeptCosts(t *testing.T) {
	tmpl := embedded(t)
	cost := func(in *prompt.Input) float64 {
		return testing.AllocsPerRun(10, func() {
			if _, err := tmpl.Render(in); err != nil {
				t.Fatal(err)
			}
		})
	}
	kept, plain := talk(true), talk(false)
	if got, all := cost(kept), cost(plain); got > all/5 {
		t.Errorf("a prompt with a known history takes %v allocations, and %v with an unknown one", got, all)
	}
	listed, alone := &prompt.Input{Listed: kept.Listed, User: "hi"}, &prompt.Input{Agents: kept.Listed, User: "hi"}
	if got, all := cost(listed), cost(alone); got > all/2 {
		t.Errorf("a prompt with a known list of agents takes %v allocations, and %v with an unknown one", got, all)
	}
}
