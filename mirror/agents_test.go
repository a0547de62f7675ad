package mirror_test

import (
	"context"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestAgents has agents come, change, and leave, with and without a mirror.
func TestAgents(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	bus := memory.New(nil)
	defer bus.Close()
	serve := func(skill string) (stop func()) {
		t.Helper()
		card, handler, _ := agents.Lookup("echo")
		card.Skills[0].ID = skill
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			agents.Serve(ctx, bus, card, handler, nil) //nolint:errcheck // it ends with the test
		}()
		return func() {
			cancel()
			<-ended
		}
	}
	state := func(want string) func() bool {
		return func() bool { return w.rows("SELECT skills[1], gone IS NULL FROM cortex.v_agents") == want }
	}
	m := w.run(mirror.Options{Transport: bus})
	w.complete()
	leave := serve("echo")
	w.await("it is registered", state(`["echo",true]`))
	leave()
	w.await("it is gone", state(`["echo",false]`))
	leave = serve("shout")
	w.await("it has come back", state(`["shout",true]`))
	if got := w.rows("SELECT capability, agents FROM cortex.v_capabilities"); got != `["shout",["agent_echo"]]` {
		t.Errorf("the capabilities are %s", got)
	}
	m.stop()
	m = w.run(mirror.Options{Transport: bus}) // it is announced again
	w.complete()
	m.stop()
	leave()
	w.run(mirror.Options{Transport: bus})
	w.await("it has left meanwhile", state(`["shout",false]`))
	if got, want := w.rows("SELECT event, detail FROM cortex.agent_events ORDER BY id"), `["registry.agent.registered",{"skills":["echo"],"version":"1.0.0"}]
["registry.capability.changed",{"added":["echo"],"removed":[]}]
["registry.agent.deregistered",{"reason":"requested"}]
["registry.capability.changed",{"added":[],"removed":["echo"]}]
["registry.agent.registered",{"skills":["shout"],"version":"1.0.0"}]
["registry.capability.changed",{"added":["shout"],"removed":[]}]
["registry.agent.deregistered",{"reason":"gone while no mirror ran"}]
["registry.capability.changed",{"added":[],"removed":["shout"]}]`; got != want {
		t.Errorf("the events are\n%s\nwant\n%s", got, want)
	}
	if got := w.rows("SELECT count(*) FROM cortex.v_events WHERE event_type LIKE 'registry.%'"); got != "[8]" {
		t.Errorf("v_events has %s", got)
	}
}
