package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// booker is a program for scripts: an agent that asks a question. It writes the id of each of its tasks to the file "tasks".
func booker() {
	if err := book(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func book(ctx context.Context) error {
	bus, err := dialServer(ctx)
	if err != nil {
		return err
	}
	defer bus.Close()
	skill := a2a.AgentSkill{ID: "book", Name: "Book a table", Examples: []string{"book a table: at the Golden Fish"}}
	card := &a2a.AgentCard{Name: "booker", Description: "Books a table at a restaurant", Version: "1.0.0", Skills: []a2a.AgentSkill{skill}}
	return agents.Serve(ctx, bus, card, agents.Handler(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		f, err := os.OpenFile("tasks", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := fmt.Fprintln(f, t.ID); err != nil {
			return nil, err
		}
		if !strings.Contains(t.Text(), "people") {
			return agents.InputRequired("For how many?"), nil
		}
		return agents.Text("Booked for " + t.Text() + "."), nil
	}), nil)
}

// dialServer connects to the Cortex of a script.
func dialServer(ctx context.Context) (*nats.Bus, error) {
	b, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".local", "state", "cortex", "server.json"))
	if err != nil {
		return nil, err
	}
	var server struct{ URL string }
	if err := json.Unmarshal(b, &server); err != nil {
		return nil, err
	}
	return nats.Dial(ctx, &nats.Options{URL: server.URL})
}
