package rockbot

import (
	"context"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
)

// shout is an agent of Cortex.
func (w *world) shout(h agents.Handler) (id string, leave func()) {
	id = w.name("shout")
	return id, w.join(&a2a.AgentCard{Name: id, Description: "Shouts", Skills: []a2a.AgentSkill{{ID: "shout", Name: "Shout", Description: "Shouts", Tags: []string{}}}}, h)
}

// TestAsked has RockBot give work to an agent of Cortex, and to Cortex itself.
func TestAsked(t *testing.T) {
	w := newWorld(t)
	id, _ := w.shout(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		return agents.Text(t.Text() + "!"), nil
	})
	w.o.announce = []string{"cortex", "shout*"}
	p := w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	for agent, want := range map[string]string{w.o.name: "Cortex has heard it", id: "hello!"} {
		if _, err := p.Knows(w.soon(), agent, true); err != nil {
			t.Fatal(err)
		}
		task := p.Invoke(agent, "", "hello")
		m := w.response(p, task, 1)
		if m.Type != rockbottest.Result || m.State() != rockbottest.Completed || m.Text() != want || m.Source != agent || m.Task() != task {
			t.Errorf("%s has answered %+v", agent, m)
		}
		if all := p.Statuses(task); len(all) == 0 || all[0].State() != rockbottest.Working {
			t.Errorf("%s has said %+v of its work", agent, all)
		}
	}
	w.stop()
	for _, agent := range []string{w.o.name, id} {
		if _, err := p.Knows(w.soon(), agent, false); err != nil {
			t.Error(err)
		}
	}
}
