package registry_test

import (
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestLate checks when an instance is late: when a heartbeat of it, or of its host, has not come.
func TestLate(t *testing.T) {
	for _, tt := range []struct {
		name            string
		heartbeat, host time.Duration
		intime, late    time.Duration
	}{
		{"heartbeat", 30 * time.Second, 0, 40 * time.Second, 41 * time.Second},
		{"short heartbeat", time.Second, 0, 3 * time.Second, 4 * time.Second},
		{"of a host", 10 * time.Minute, 30 * time.Second, 40 * time.Second, 41 * time.Second},
		{"none", 0, 0, 24 * time.Hour, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			c := transport.Card{Card: agentCard("x", "a"), Heartbeat: tt.heartbeat}
			if tt.host > 0 {
				c.Host = "host"
				w.Apply(cardEvent(&transport.Card{AgentID: "host", Host: "host", Instance: "1", Heartbeat: tt.host}))
			}
			w.publish("x/1", c)
			r, _ := w.Snapshot().Get("x")
			in := r.Instances[0]
			if in.Late(w.now.Add(tt.intime)) {
				t.Errorf("it is late after %v, with heartbeats of %v", tt.intime, in.Heartbeat)
			}
			if tt.late > 0 && !in.Late(w.now.Add(tt.late)) {
				t.Errorf("it is in time after %v, with heartbeats of %v", tt.late, in.Heartbeat)
			}
		})
	}
}

// TestRetainedHost checks that the agents of a host were seen when it was, also where its card was published before the registry began.
func TestRetainedHost(t *testing.T) {
	now := epoch.Add(time.Minute)
	for _, first := range []string{"host", "agent"} {
		r := registry.New(registry.Config{Tenant: "t", Now: func() time.Time { return now }})
		host := cardEvent(&transport.Card{AgentID: "host", Host: "host", Instance: "1", Heartbeat: 30 * time.Second})
		host.Time = epoch.Add(20 * time.Second)
		agent := cardEvent(&transport.Card{AgentID: "x", Host: "host", Instance: "1", Card: agentCard("x", "a")})
		agent.Time = epoch
		events := []*transport.Event{host, agent}
		if first == "agent" {
			events = []*transport.Event{agent, host}
		}
		for _, e := range events {
			r.Apply(e)
		}
		if rec, ok := r.Snapshot().Get("x"); !ok || !rec.Instances[0].LastSeen.Equal(host.Time) || !rec.LastSeen.Equal(host.Time) {
			t.Errorf("%s first: seen at %+v, want %v", first, rec, host.Time)
		}
	}
}
