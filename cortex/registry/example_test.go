package registry_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A registry is fed with the cards that agents announce; Run does that from a transport.
func Example() {
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	wellKnown, err := registry.ReadWellKnown(strings.NewReader(`[{"agentName": "Research", "description": "Searches the web."}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := registry.New(registry.Config{
		WellKnown: wellKnown,
		Now:       func() time.Time { return now },
		OnEvent:   func(e registry.Event) { fmt.Println(e.Kind, e.AgentID, len(e.Record.Instances)) },
	})
	echo := &a2a.AgentCard{Name: "echo", Description: "Says it again."}
	r.Apply(&transport.Event{Payload: &transport.Card{AgentID: "echo", Instance: "1", Card: echo, TTL: 90 * time.Second}})

	for _, a := range r.Snapshot().Agents() {
		fmt.Printf("%s: %s, seen: %t\n", a.ID, a.State, !a.LastSeen.IsZero())
	}
	r.Apply(&transport.Event{Payload: &transport.Card{AgentID: "echo", Instance: "1", Gone: transport.GoneLeft}})
	fmt.Println(len(r.Snapshot().Agents()), "agent")
	// Output:
	// registered echo 1
	// Research: unknown, seen: false
	// echo: active, seen: true
	// deregistered echo 0
	// 1 agent
}
