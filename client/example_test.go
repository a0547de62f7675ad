package client_test

import (
	"context"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// polite gives the same answer to everything.
type polite struct{}

func (polite) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	return &llm.Decision{Kind: llm.KindRespond, Say: "You are welcome."}, nil
}

// Example asks a Cortex in the same process. For a Cortex elsewhere, use nats.Dial for the transport and jetstore.Open for the store.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bus, store := memory.New(nil), memstore.New()
	o, err := cortex.New(cortex.Config{Transport: bus, Store: store, Decider: polite{}, Agents: func(string) []prompt.Agent { return nil }})
	if err != nil {
		panic(err)
	}
	go o.Run(ctx) //nolint:errcheck // ends with the example

	c := &client.Client{Transport: bus, User: "user:ann", Log: client.ReadLog(store, "")}
	for e, err := range c.Ask(ctx, client.Text("demo", "Thank you!")) {
		if err != nil {
			panic(err)
		}
		if m, ok := e.Payload.(*a2a.Message); ok {
			fmt.Println(transport.Text(m.Parts))
		}
	}

	// A gateway sends the message now and asks for the answer later, perhaps after a restart.
	turn, err := c.Send(ctx, &client.Message{ContextID: "demo", ID: "their-id-1", Parts: a2a.ContentParts{a2a.NewTextPart("Thanks again!")}})
	if err != nil {
		panic(err)
	}
	answer, err := c.Answer(ctx, turn)
	if err != nil {
		panic(err)
	}
	fmt.Println(transport.Text(answer.Parts))
	// Output:
	// You are welcome.
	// You are welcome.
}
