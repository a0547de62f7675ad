package cortex_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// parrot is a model that knows one sentence. A real one sends r to its vendor and yields the reply.
type parrot struct{}

func (parrot) Generate(_ context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		answer := `{"kind": "respond", "say": "Polly wants a cracker.", "delegations": [], "reason": "always"}`
		_ = yield(llm.Chunk{Text: answer}, nil) && yield(llm.Chunk{Done: true, Model: "parrot"}, nil)
	}
}

// Cortex as a library, with its own language model.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus := memory.New(nil)
	templates, err := prompt.New("")
	if err != nil {
		panic(err)
	}
	c, err := cortex.New(cortex.Config{
		Transport: bus, Store: memstore.New(), Decider: llm.NewDecider(parrot{}, templates, nil),
		Agents: func(string) []prompt.Agent { return nil }, // or those of a registry.Registry
	})
	if err != nil {
		panic(err)
	}
	go c.Run(ctx)

	user := &client.Client{Transport: bus}
	for e, err := range user.Ask(ctx, client.Text("demo", "Hello?")) {
		if err != nil {
			panic(err)
		}
		if m, ok := e.Payload.(*a2a.Message); ok {
			fmt.Println(transport.Text(m.Parts))
		}
	}
	// Output: Polly wants a cracker.
}
