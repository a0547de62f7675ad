package agentstest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
	"github.com/cortex-orchestrator/cortex/transport"
)

func shout(_ context.Context, t *agents.Task) (*agents.Result, error) {
	return agents.Text(strings.ToUpper(t.Text())), nil
}

func TestThreeLines(t *testing.T) {
	c := agentstest.Serve(t, agents.Handler(shout))
	if got := c.Do("hello"); got.Text != "HELLO" || got.State != a2a.TaskStateCompleted {
		t.Errorf("got %+v", got)
	}
}

func TestAskAndReply(t *testing.T) {
	c := agentstest.Serve(t, agents.Handler(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		if t.Text() == "which?" {
			return agents.InputRequired("this or that?"), nil
		}
		m, err := t.Ask(ctx, agents.Request{Text: t.Text(), Agent: "other"})
		if err != nil {
			return nil, err
		}
		return agents.Text("heard " + transport.Text(m.Parts)), nil
	}))
	if got := c.Do("hello"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, "nobody answers") {
		t.Errorf("without Answer: %+v", got)
	}
	c.Answer(func(m *a2a.Message) (string, error) {
		if d, ok := transport.DirectOf(m); !ok || d.Agent != "other" {
			return "", errors.New("it is for nobody")
		}
		return strings.ToUpper(transport.Text(m.Parts)), nil
	})
	if got := c.Do("hello"); got.Text != "heard HELLO" {
		t.Errorf("got %+v", got)
	}
	if got := c.Do("which?"); got.State != a2a.TaskStateInputRequired || got.Text != "this or that?" {
		t.Errorf("got %+v", got)
	}
}

func TestSkill(t *testing.T) {
	type in struct {
		Name string `json:"name"`
	}
	type out struct {
		Greeting string `json:"greeting"`
	}
	c := agentstest.Serve(t, agents.Func(a2a.AgentSkill{ID: "greet"}, func(_ context.Context, _ *agents.Task, i in) (out, error) {
		return out{"hello " + i.Name}, nil
	}))
	got := c.DoSkill("greet", map[string]any{"name": "Ann"})
	if m, ok := got.Data().(map[string]any); !ok || m["greeting"] != "hello Ann" {
		t.Errorf("got %+v", got)
	}
}
