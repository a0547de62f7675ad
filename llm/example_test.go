package llm_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// parrot stands for a provider: a real one sends the request to its endpoint here, and yields the answer as it comes.
type parrot struct{}

func (parrot) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		reply := `{"kind":"respond","say":"I know nothing.","delegations":[],"reason":"no agent"}`
		if strings.Contains(r.System, "agent_echo") {
			reply = `{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"agent_echo","task":"hi"}],"reason":"asked"}`
		}
		for _, word := range strings.SplitAfter(reply, " ") {
			if ctx.Err() != nil {
				yield(llm.Chunk{}, ctx.Err())
				return
			}
			if !yield(llm.Chunk{Text: word}, nil) {
				return
			}
		}
		yield(llm.Chunk{Done: true, Model: "parrot-1", Usage: llm.Usage{Input: len(r.System), Output: len(reply)}}, nil)
	}
}

// A provider is one method; NewDecider makes a decider of it.
func Example() {
	tmpl, err := prompt.New("")
	if err != nil {
		panic(err)
	}
	decider := llm.NewDecider(parrot{}, tmpl, nil)
	t := &llm.Turn{ContextID: "c1", Input: prompt.Input{User: "say hi"}}
	show := func(text string) { fmt.Printf("[%s]", text) }

	d, err := decider.Decide(context.Background(), t, show)
	fmt.Println("", d.Kind, d.Model, err)

	t.Agents = []prompt.Agent{{ID: "agent_echo", Card: &a2a.AgentCard{Name: "agent_echo"}, Seen: true}}
	d, err = decider.Decide(context.Background(), t, show)
	fmt.Println(d.Kind, d.Delegations[0].Agent, d.Delegations[0].Task, err)
	// Output:
	// [I ][know ][nothing.] respond parrot-1 <nil>
	// delegate agent_echo hi <nil>
}
