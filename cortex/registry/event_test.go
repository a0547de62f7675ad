package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestContentDecides checks that events follow from the card, not from the envelope or the sender's claims.
func TestContentDecides(t *testing.T) {
	w := newWorld()
	w.announce("echo/1", "a")
	again := cardEvent(&transport.Card{AgentID: "echo", Instance: "1", Card: agentCard("echo", "a"), TTL: time.Minute})
	again.ID, again.From, again.Delivery = "agent.registered", "gateway", 3
	w.Apply(again)
	w.want(t, "registered echo/1")
	changed := agentCard("echo", "a")
	changed.Skills[0].Examples = []string{"more"}
	w.publish("echo/1", transport.Card{Card: changed, TTL: ttl})
	w.want(t, "updated echo/1")
}

func TestSkills(t *testing.T) {
	w := newWorld()
	say := func(instance string, skills ...a2a.AgentSkill) {
		c := agentCard("echo", "a")
		c.Skills = skills
		w.publish(instance, transport.Card{Card: c, TTL: ttl})
	}
	a, b, nameless := a2a.AgentSkill{ID: "a", Name: "A"}, a2a.AgentSkill{ID: "b", Name: "B"}, a2a.AgentSkill{Name: "C"}
	say("echo/1", b, a)
	w.want(t, "registered echo/1")
	say("echo/1", a, b) // another card, the same skills
	w.want(t, "updated echo/1")
	say("echo/1", a, a2a.AgentSkill{ID: "b", Name: "B", Description: "better"})
	w.want(t, "updated echo/1")
	say("echo/1", nameless, a, nameless, a2a.AgentSkill{ID: "0"})
	w.want(t, "updated echo/1", "capabilities-changed echo/1 +0 +C -b")
	say("echo/2", b) // the instance with the new card represents the agent
	w.want(t, "instance-joined echo/2", "updated echo/2", "capabilities-changed echo/2 +b -0 -C -a", "conflict echo/2")
	w.goes("echo/2", transport.GoneLeft)
	w.want(t, "instance-left echo/2 requested", "updated echo/2", "capabilities-changed echo/2 +0 +C +a -b")
	say("echo/1")
	w.want(t, "updated echo/1", "capabilities-changed echo/1 -0 -C -a")
}

func TestSeen(t *testing.T) {
	w := newWorldOf(registry.Config{Seen: true})
	w.announce("echo/1", "a")
	w.announce("echo/1", "a")
	w.announce("echo/1", "b")
	w.drain("echo/1", "b")
	w.drain("echo/1", "b")
	w.want(t, "registered echo/1", "seen echo/1", "updated echo/1", "draining echo/1", "seen echo/1")
	if r := w.last.Record; r == nil || r.State != registry.StateDraining {
		t.Errorf("record = %+v, want the agent as it is", r)
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(registry.WellKnown{ID: "research", Card: agentCard("research", "listed")})
	status := func(id string) registry.Status {
		r, ok := w.Snapshot().Get(id)
		if !ok {
			r = w.last.Record
		}
		return r.Status()
	}
	for _, step := range []struct {
		do   func()
		id   string
		want registry.Status
	}{
		{func() {}, "research", registry.StatusRegistered},
		{func() { w.announce("echo/1", "a") }, "echo", registry.StatusReady},
		{func() { w.drain("echo/1", "a") }, "echo", registry.StatusDraining},
		{func() { w.goes("echo/1", transport.GoneLeft) }, "echo", registry.StatusDeregistered},
	} {
		step.do()
		if got := status(step.id); got != step.want {
			t.Errorf("status of %s = %s, want %s", step.id, got, step.want)
		}
	}
}

// TestTenantScope checks that an agent for another tenant gets no work, and that the reason is reported.
func TestTenantScope(t *testing.T) {
	scoped := func(id, scope string) *a2a.AgentCard {
		return agentcard.Attach(agentCard(id, "a"), &agentcard.Spec{TenantScope: scope, OwnerTeam: "team"})
	}
	w := newWorld(registry.WellKnown{ID: "listed", Card: scoped("listed", "acme")})
	w.wantAgents(t, "listed:refused:a")
	say := func(instance, scope string) {
		c := scoped("echo", scope)
		w.publish(instance, transport.Card{Card: c, TTL: ttl})
	}
	say("echo/1", "acme")
	const why = `its tenant_scope is "acme", and this is tenant "t"`
	w.want(t, "registered echo/1", "refused echo/1 "+why)
	w.wantAgents(t, "echo:refused:a", "listed:refused:a")
	if r := w.last.Record; r.Refused != why || r.Spec.OwnerTeam != "team" || r.Status() != registry.StatusRegistered {
		t.Errorf("record = %+v, want it refused", r)
	}
	say("echo/1", "acme")
	w.want(t)
	say("echo/1", "t")
	w.want(t, "updated echo/1")
	w.wantAgents(t, "echo:active:a+", "listed:refused:a")
	say("echo/1", strings.Repeat("x", 250))
	if len(w.events) != 2 || len(w.last.Reason) > 200 {
		t.Errorf("events %q, want an update and a short refusal", w.events)
	}
	for _, scope := range []any{strings.Repeat("x", 300), []any{"t"}, "t\u202e"} {
		c := scoped("strange", "t")
		c.Capabilities.Extensions[0].Params["tenant_scope"] = scope
		w.publish("strange/1", transport.Card{Card: c, TTL: ttl})
		if r, ok := w.Snapshot().Get("strange"); !ok || r.Routable() {
			t.Errorf("an agent with the scope %.20v, which cannot be read, may be given work", scope)
		}
	}
}

func TestWellKnown(t *testing.T) {
	w := newWorld(registry.WellKnown{ID: "research", Card: agentCard("research", "listed")})
	w.announce("echo/1", "a")
	w.wantAgents(t, "echo:active:a+", "research:unknown:listed+")
	r, _ := w.Snapshot().Get("research")
	if !r.Pinned || !r.LastSeen.IsZero() || r.Origin != registry.OriginWellKnown || !r.RegisteredAt.IsZero() || r.Version != "1.2.0" || r.Spec == nil {
		t.Errorf("record = %+v, want it pinned and never registered", r)
	}

	w.events = nil
	w.announce("research/1", "running")
	w.want(t, "instance-joined research/1", "updated research/1")
	w.wantAgents(t, "echo:active:a+", "research:active:running+")
	w.drain("research/1", "running")
	w.wantAgents(t, "echo:active:a+", "research:draining:running+")
	for _, why := range []transport.GoneReason{transport.GoneLeft, transport.GoneExpired} {
		w.announce("research/1", "running")
		w.events = nil
		seen := w.now
		w.now = w.now.Add(time.Minute)
		w.goes("research/1", why)
		if w.events[0] != "instance-left research/1 requested" && w.events[0] != "instance-left research/1 expired" {
			t.Errorf("events %q, want that an instance left", w.events)
		}
		w.goes("research/1", why)
		w.wantAgents(t, "echo:active:a+", "research:unknown:listed+")
		r, _ = w.Snapshot().Get("research")
		if !r.LastSeen.Equal(seen) || !r.RegisteredAt.Equal(epoch) || !r.ExpiresAt.IsZero() || r.Origin != registry.OriginWellKnown {
			t.Errorf("record of a well-known agent that went = %+v, want it as listed, last seen at %v", r, seen)
		}
	}
	w.announce("research/1", "running")
	w.events = nil
	w.pass(time.Hour)
	w.want(t, "deregistered echo/1 expired", "instance-left research/1 expired", "updated research/1")
	w.wantAgents(t, "research:unknown:listed+")
}
