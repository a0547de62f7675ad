package agents_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// A complete agent: a card, a handler, and Serve.
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

// A skill with Go types: the schemas are inferred, added to the card, and checked.
func ExampleFunc() {
	type place struct {
		City string `json:"city" jsonschema:"the name of a city"`
	}
	type weather struct {
		Sky string `json:"sky"`
	}
	skill := a2a.AgentSkill{ID: "weather", Name: "Weather", Description: "Tells the weather in a city"}
	tell := agents.Func(skill, func(_ context.Context, t *agents.Task, in place) (weather, error) {
		t.Progress("looking out in " + in.City)
		return weather{"blue"}, nil
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go agents.Serve(ctx, memory.New(nil), &a2a.AgentCard{Name: "agent_weather"}, tell, nil)
}

// events is an agent that yields events, like one that speaks another protocol.
type events struct{}

func (events) Execute(_ context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if !yield(a2a.NewArtifactEvent(t.Message, a2a.NewTextPart("a picture")), nil) {
			return
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("done: "+t.Text())), nil)
	}
}

func ExampleExecutor() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tr := memory.New(nil)
	go agents.Serve(ctx, tr, &a2a.AgentCard{Name: "agent_events"}, events{}, nil)
	fmt.Println(ask(ctx, tr, "agent_events", "hello"))
	// Output: done: hello
}
