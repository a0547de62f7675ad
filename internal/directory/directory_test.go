package directory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestIndexFollows checks that the index learns of everything that makes an agent routable or not.
func TestIndexFollows(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, 1))
			now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
			ids := []string{"anna", "bert", "carl", "dora", "emil"}
			card := func(id string) *a2a.AgentCard {
				c := &a2a.AgentCard{Name: id, Description: "Works", Version: fmt.Sprint(random.IntN(3))}
				for range 1 + random.IntN(2) {
					skill := string(rune('a' + random.IntN(4)))
					c.Skills = append(c.Skills, a2a.AgentSkill{ID: skill, Name: skill})
				}
				if random.IntN(4) == 0 {
					c = agentcard.Attach(c, &agentcard.Spec{TenantScope: []string{"t", "other"}[random.IntN(2)]})
				}
				return c
			}
			d := directory.New(registry.Config{
				Tenant: "t", StrictAbilities: strict, Now: func() time.Time { return now },
				WellKnown: []registry.WellKnown{{ID: "dora", Card: card("dora")}, {ID: "fred", Card: card("fred")}},
			})
			agree := func(step string) {
				t.Helper()
				var want []string
				for _, r := range d.Registry.Snapshot().Routable() {
					want = append(want, r.ID)
				}
				var got []string
				for _, id := range append(ids, "fred") {
					if slices.Contains(d.Index.Named("@"+id), id) {
						got = append(got, id)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" || d.Index.Len() != len(want) {
					t.Fatalf("strict %v, seed %d, after %s: the index has %d agents, and differs (-registry +index):\n%s", strict, seed, step, d.Index.Len(), diff)
				}
			}
			agree("the beginning")
			for range 400 {
				c := &transport.Card{AgentID: ids[random.IntN(len(ids))], Instance: fmt.Sprint(random.IntN(2))}
				step := fmt.Sprint(c.AgentID, "/", c.Instance)
				switch random.IntN(12) {
				case 0, 1:
					c.Gone = transport.GoneLeft
				case 2:
					c.Gone = transport.GoneExpired
				case 3:
					now = now.Add(5 * time.Second)
					d.Registry.Sweep(now)
					agree("a sweep")
					continue
				case 4:
					now = now.Add(time.Minute)
					d.Registry.Sweep(now) // after a jump of the clock every agent gets a grace period
					agree("a jump")
					continue
				case 5:
					d.Registry.Pause()
					d.Registry.Resume()
					agree("a pause")
					continue
				default:
					c.Card, c.TTL, c.Draining = card(c.AgentID), 10*time.Second, random.IntN(4) == 0
				}
				d.Registry.Apply(&transport.Event{Tenant: "t", Payload: c})
				agree(step)
			}
		}
	}
}

// recorder is an orchestrator that records its calls.
type recorder []string

func (o *recorder) AgentGone(id string) { *o = append(*o, "gone "+id) }
func (o *recorder) AgentBack(id string) { *o = append(*o, "back "+id) }

// TestOrchestratorIsTold checks that the orchestrator learns before others which agents are gone and which are routable again.
func TestOrchestratorIsTold(t *testing.T) {
	var heard recorder
	d := directory.New(registry.Config{
		WellKnown: []registry.WellKnown{{ID: "dora", Card: &a2a.AgentCard{Name: "dora"}}},
		OnEvent:   func(e registry.Event) { heard = append(heard, string(e.Kind)+" "+e.AgentID) },
	})
	heard = nil
	d.Tell(&heard)
	for _, c := range []*transport.Card{
		{AgentID: "anna", Instance: "1", Card: &a2a.AgentCard{Name: "anna"}, TTL: time.Minute},
		{AgentID: "anna", Instance: "1", Card: &a2a.AgentCard{Name: "anna"}, TTL: time.Minute, Draining: true},
		{AgentID: "anna", Instance: "1", Gone: transport.GoneLeft},
	} {
		d.Registry.Apply(&transport.Event{Payload: c})
	}
	want := recorder{"back anna", "registered anna", "draining anna", "gone anna", "deregistered anna"}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// TestListIsKept checks that heartbeats leave the list of agents as it is, and that a change makes another one.
func TestListIsKept(t *testing.T) {
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	d := directory.New(registry.Config{Now: func() time.Time { return now }})
	beat := func(describes string) {
		now = now.Add(10 * time.Second)
		card := &a2a.AgentCard{Name: "anna", Description: describes, Version: "1"}
		d.Registry.Apply(&transport.Event{Payload: &transport.Card{AgentID: "anna", Instance: "1", Card: card, TTL: time.Minute}})
	}
	beat("works")
	snapshot, first := d.Registry.Snapshot(), d.Routable("")
	beat("works")
	if next := d.Routable(""); d.Registry.Snapshot() == snapshot || len(first) != 1 || &next[0] != &first[0] {
		t.Error("after a heartbeat: another list, or the same snapshot")
	}
	beat("sings")
	if next := d.Routable(""); len(next) != 1 || &next[0] == &first[0] || next[0].Card.Description != "sings" {
		t.Error("after a change: the same list")
	}
}

// TestWhoRuns checks that a well-known agent is seen only while it runs.
func TestWhoRuns(t *testing.T) {
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	dora := &a2a.AgentCard{Name: "dora"}
	d := directory.New(registry.Config{WellKnown: []registry.WellKnown{{ID: "dora", Card: dora}}, Now: func() time.Time { return now }})
	for _, step := range []struct {
		card *transport.Card
		want bool
	}{
		{nil, false},
		{&transport.Card{AgentID: "dora", Instance: "1", Card: dora, TTL: time.Minute}, true},
		{&transport.Card{AgentID: "dora", Instance: "1", Gone: transport.GoneExpired}, false},
		{&transport.Card{AgentID: "dora", Instance: "2", Card: dora, TTL: time.Minute}, true},
		{&transport.Card{AgentID: "dora", Instance: "2", Gone: transport.GoneLeft}, false},
	} {
		if step.card != nil {
			d.Registry.Apply(&transport.Event{Payload: step.card})
		}
		if list := d.Routable(""); len(list) != 1 || list[0].Seen != step.want {
			t.Errorf("after %+v: %+v, want dora, seen %v", step.card, list, step.want)
		}
	}
}
