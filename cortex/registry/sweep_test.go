package registry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// start returns a registry that has swept once, as Run does.
func start(cfg registry.Config) *world {
	w := newWorldOf(cfg)
	w.Sweep(w.now)
	return w
}

func (w *world) beat(instance string, heartbeat, ttl time.Duration) *transport.Event {
	return w.publish(instance, transport.Card{Card: agentCard("x", "a"), Heartbeat: heartbeat, TTL: ttl})
}

func TestSilence(t *testing.T) {
	const none = 24 * time.Hour
	for _, tt := range []struct {
		name           string
		heartbeat, ttl time.Duration
		lives          time.Duration // at least for this long
		dies           time.Duration // at the latest
		why            string
	}{
		{"heartbeat", 30 * time.Second, 0, 89 * time.Second, 90 * time.Second, "missed-heartbeats"},
		{"slow heartbeat", 2 * time.Minute, 0, 6*time.Minute - time.Second, 6 * time.Minute, "missed-heartbeats"},
		{"heartbeat within a long lease", 30 * time.Second, time.Hour, 89 * time.Second, 90 * time.Second, "missed-heartbeats"},
		{"the kit's", 30 * time.Second, 90 * time.Second, 95 * time.Second, 100 * time.Second, "missed-heartbeats"},
		{"lease", 0, time.Hour, time.Hour + 5*time.Second, time.Hour + 10*time.Second, "expired"},
		{"short lease", 0, time.Second, 5 * time.Second, 10 * time.Second, "expired"},
		{"tiny heartbeat", time.Nanosecond, 0, 999 * time.Millisecond, 5 * time.Second, "missed-heartbeats"},
		{"for ever", 0, 0, none, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(registry.Config{})
			for range 3 {
				w.beat("x/1", tt.heartbeat, tt.ttl)
				if tt.lives < none {
					w.pass(tt.lives)
				}
			}
			w.want(t, "registered x/1")
			if tt.dies == 0 {
				w.pass(none)
				w.want(t)
				return
			}
			w.pass(tt.dies - tt.lives)
			w.want(t, "deregistered x/1 "+tt.why)
			w.pass(time.Hour)
			w.want(t)
		})
	}
}

// TestExpiredByTransport checks the reason when the transport removes an agent's card.
func TestExpiredByTransport(t *testing.T) {
	w := start(registry.Config{})
	w.beat("beats/1", 30*time.Second, 90*time.Second)
	w.beat("leased/1", 0, 90*time.Second)
	w.events = nil
	w.goes("beats/1", transport.GoneExpired)
	w.goes("leased/1", transport.GoneExpired)
	w.want(t, "deregistered beats/1 missed-heartbeats", "deregistered leased/1 expired")
}

// TestSilentInstance checks that silence removes one instance, and not the others.
func TestSilentInstance(t *testing.T) {
	w := start(registry.Config{})
	w.beat("x/2", 30*time.Second, 0)
	w.beat("x/3", 30*time.Second, 0)
	w.beat("x/1", time.Minute, 0)
	w.beat("y/1", 30*time.Second, 0)
	w.events = nil
	w.pass(90 * time.Second)
	w.want(t, "instance-left x/2 missed-heartbeats", "instance-left x/3 missed-heartbeats", "deregistered y/1 missed-heartbeats")
	w.pass(90 * time.Second)
	w.want(t, "deregistered x/1 missed-heartbeats")
}

// TestPause makes Cortex absent for ten minutes in different ways, with agents that are alive, have died in the meantime, or leave.
func TestPause(t *testing.T) {
	for name, away := range map[string]func(w *world){
		"lost connection": func(w *world) {
			w.Pause()
			w.pass(10 * time.Minute)
			w.Resume()
		},
		"told late": func(w *world) {
			w.pass(80 * time.Second)
			w.Resume()
		},
		"suspended machine": func(w *world) {
			w.now = w.now.Add(10 * time.Minute)
			w.goes("nobody/1", transport.GoneLeft) // the first one heard
		},
		"suspended machine that sweeps first": func(w *world) {
			w.now = w.now.Add(10 * time.Minute)
			w.Sweep(w.now)
		},
		"a clock that is set back": func(w *world) {
			w.now = w.now.Add(-10 * time.Minute)
			w.Sweep(w.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(registry.Config{})
			agents := []string{"alive/1", "dead/1", "leased/1", "leaves/1", "lazy/1", "slow/1", "stays/1"}
			for _, a := range agents {
				heartbeat, ttl := 30*time.Second, 90*time.Second
				switch a {
				case "leased/1":
					heartbeat = 0
				case "lazy/1":
					heartbeat, ttl = 0, 4*time.Minute
				case "slow/1":
					heartbeat, ttl = 2*time.Minute, 0
				case "stays/1":
					heartbeat, ttl = 0, 0
				}
				w.beat(a, heartbeat, ttl)
			}
			w.events = nil
			away(w)
			for _, a := range agents[:3] { // the transport has not retained them
				w.goes(a, transport.GoneExpired)
			}
			w.goes("leaves/1", transport.GoneLeft)
			w.want(t, "deregistered leaves/1 requested")
			w.beat("late/1", 30*time.Second, 0) // for which there is no grace
			w.pass(85 * time.Second)
			w.beat("alive/1", 30*time.Second, 90*time.Second)
			w.want(t, "registered late/1")
			w.pass(4 * time.Second)
			w.want(t)
			w.pass(time.Second)
			w.want(t, "deregistered dead/1 missed-heartbeats", "deregistered late/1 missed-heartbeats", "deregistered leased/1 missed-heartbeats")
			w.goes("alive/1", transport.GoneExpired) // it was heard of, and is treated as others
			w.want(t, "deregistered alive/1 missed-heartbeats")
			w.pass(149 * time.Second)
			w.want(t)
			w.pass(time.Second)
			w.want(t, "deregistered lazy/1 missed-heartbeats")
			w.pass(119 * time.Second)
			w.want(t)
			w.pass(time.Second)
			w.want(t, "deregistered slow/1 missed-heartbeats")
			w.wantAgents(t, "stays:active:a+")
		})
	}
}

// TestReread checks that an old announcement is no heartbeat when the transport delivers its retained cards again.
func TestReread(t *testing.T) {
	w := start(registry.Config{})
	e := w.beat("x/1", 30*time.Second, 90*time.Second)
	constant := w.beat("y/1", 30*time.Second, 90*time.Second)
	w.events = nil
	w.Resume()
	w.pass(10 * time.Second)
	w.Apply(e)
	w.Apply(constant)
	if r, _ := w.Snapshot().Get("x"); !r.LastSeen.Equal(epoch) {
		t.Errorf("seen at %v, want when it was announced", r.LastSeen)
	}
	w.goes("x/1", transport.GoneExpired)
	w.want(t)
	w.pass(20 * time.Second)
	w.Apply(constant) // from a host whose announcements never differ
	w.pass(60 * time.Second)
	w.want(t, "deregistered x/1 missed-heartbeats")
	w.pass(40 * time.Second)
	w.want(t, "deregistered y/1 missed-heartbeats")
}

// TestSweepIsSteady checks that regular sweeps do not count as a pause.
func TestSweepIsSteady(t *testing.T) {
	w := start(registry.Config{})
	w.beat("x/1", 30*time.Second, 0)
	w.events = nil
	for range 6 {
		w.now = w.now.Add(15 * time.Second)
		w.Sweep(w.now)
	}
	w.want(t, "deregistered x/1 missed-heartbeats")
}

// TestManySilent lets all agents but a few fall silent at once, at neighbouring positions.
func TestManySilent(t *testing.T) {
	w := start(registry.Config{})
	for i := range 100 {
		heartbeat := 30 * time.Second
		if i%7 == 0 {
			heartbeat = time.Hour
		}
		w.beat(fmt.Sprintf("a%02d/1", i), heartbeat, 0)
	}
	w.pass(90 * time.Second)
	if got := len(w.Snapshot().Agents()); got != 15 {
		t.Errorf("%d agents are left, want 15", got)
	}
}
