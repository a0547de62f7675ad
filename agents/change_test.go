package agents_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
)

// What changes of an agent while it runs is announced at once; a card that is none, or another agent's, changes nothing.
func TestCardChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, changes := newBench(t), make(chan agents.Change)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			echo := agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) { return nil, nil })
			ended <- agents.Serve(ctx, b.bus.Dial(), card(), echo, &agents.Options{Changes: changes})
		}()
		said := func() (string, bool, int) {
			synctest.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			last := b.cards[len(b.cards)-1]
			return last.Card.Version, last.Draining, len(b.cards)
		}
		for i, step := range []struct {
			change   agents.Change
			version  string
			draining bool
		}{
			{agents.Change{Draining: true}, "1.0.0", true},
			{agents.Change{Card: &a2a.AgentCard{Name: "agent_x", Version: "2.0.0"}}, "2.0.0", false},
			{agents.Change{Card: &a2a.AgentCard{Name: "agent_y", Version: "3.0.0"}}, "2.0.0", false},
			{agents.Change{Card: &a2a.AgentCard{}, Draining: true}, "2.0.0", true},
		} {
			changes <- step.change
			if version, draining, n := said(); version != step.version || draining != step.draining || n != i+2 {
				t.Errorf("step %d: version %s, draining %v, %d announcements, want %s, %v, %d", i, version, draining, n, step.version, step.draining, i+2)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
