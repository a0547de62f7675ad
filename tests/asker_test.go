package tests

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// asker is a program for scripts: an agent that asks other agents. It streams the answer, and then waits for a file "go".
func asker() {
	if err := serveAsker(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveAsker(ctx context.Context) error {
	bus, err := dialServer(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	skill := a2a.AgentSkill{ID: "plan", Name: "Plan a trip", Examples: []string{"plan a trip to Rome"}}
	card := &a2a.AgentCard{Name: "asker", Description: "Plans a trip", Version: "1.0.0", Skills: []a2a.AgentSkill{skill}}
	return agents.Serve(ctx, bus, card, agents.Handler(plan), nil)
}

func plan(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	for _, r := range []agents.Request{{Agent: "counter", Text: "count"}, {Text: "what is 17*23?"}, {Agent: "nobody", Text: "hello"}} {
		answer, err := t.Ask(ctx, r)
		if err != nil {
			t.Stream("error: " + err.Error() + "\n")
			continue
		}
		t.Stream("heard: " + transport.Text(answer.Parts) + "\n")
	}
	if err := os.WriteFile("heard", nil, 0o600); err != nil {
		return nil, err
	}
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if _, err := os.Stat("go"); err == nil {
			return nil, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
