package agents_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// A whole agent: a card, a handler, and Serve.
func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tr := memory.New(nil) // or nats.Dial, to join a running Cortex

	card := &a2a.AgentCard{Name: "agent_shout", Description: "Writes text in capital letters"}
	shout := func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		t.Progress("shouting")
		return agents.Text(strings.ToUpper(t.Text())), nil
	}
	go agents.Serve(ctx, tr, card, agents.Handler(shout), nil)

	fmt.Println(ask(ctx, tr, "agent_shout", "hello"))
	// Output: HELLO
}

// ask gives an agent a task, as Cortex would, and returns the result.
func ask(ctx context.Context, tr transport.Transport, agent, text string) string {
	m := &a2a.Message{ID: "m1", TaskID: "t1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	tr.Publish(ctx, transport.Inbox("", agent), &transport.Event{ID: "e1", From: transport.Cortex, ContextID: "c1", Payload: m})
	results, _ := tr.Subscribe(ctx, transport.Inbox("", transport.Cortex), nil)
	answer := ""
	results.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		answer = transport.Text(e.Payload.(*a2a.Task).Status.Message.Parts)
		return results.Close()
	})
	return answer
}
