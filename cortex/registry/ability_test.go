package registry_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// offering returns an agent with these skills; a skill "x:0.9" has that confidence.
func offering(id, version string, skills ...string) profile {
	k := profile{id: id, version: version, spec: agentcard.Spec{Abilities: map[string]agentcard.Ability{}}}
	for _, s := range skills {
		skill, confidence, said := strings.Cut(s, ":")
		k.skills = append(k.skills, a2a.AgentSkill{ID: skill, Name: strings.ToUpper(skill)})
		if said {
			var c float64
			if _, err := fmt.Sscan(confidence, &c); err != nil {
				panic(err)
			}
			k.spec.Abilities[skill] = agentcard.Ability{Confidence: &c, DispatchKey: "do_" + skill}
		}
	}
	return k
}

// ability returns the offers of an ability, the best first.
func ability(s *registry.Snapshot, id string) []registry.Offer {
	for _, a := range s.Abilities() {
		if a.ID == id {
			return a.Offers
		}
	}
	return nil
}

func offerers(offers []registry.Offer) string {
	var list []string
	for _, o := range offers {
		list = append(list, o.Record.ID)
	}
	return strings.Join(list, " ")
}

func TestOffersAreOrdered(t *testing.T) {
	for _, test := range []struct {
		name   string
		agents []profile
		want   string
	}{
		{"the confident first", []profile{offering("a", "1.0.0", "s:0.2"), offering("b", "1.0.0", "s:0.9"), offering("c", "1.0.0", "s:0.51")}, "b c a"},
		{"who says nothing is in the middle", []profile{offering("a", "1.0.0", "s:0.4"), offering("b", "1.0.0", "s"), offering("c", "1.0.0", "s:0.6")}, "c b a"},
		{"none at all is said too", []profile{offering("a", "1.0.0", "s:0"), offering("b", "1.0.0", "s")}, "b a"},
		{"then the newest", []profile{offering("a", "1.9.0", "s"), offering("b", "1.10.0", "s"), offering("c", "1.10.0-rc.1", "s")}, "b c a"},
		{"confidence before version", []profile{offering("a", "9.0.0", "s:0.1"), offering("b", "1.0.0", "s:0.2")}, "b a"},
		{"no version is the oldest", []profile{offering("a", "latest", "s"), offering("b", "0.0.1", "s"), offering("c", "", "s")}, "b a c"},
		{"then the ids", []profile{offering("c", "1.0.0", "s"), offering("a", "1.0.0", "s"), offering("b", "1.0.0+build7", "s")}, "a b c"},
		{"others are not there", []profile{offering("a", "1.0.0", "S"), offering("b", "1.0.0", "s"), offering("c", "1.0.0")}, "b"},
		{"once for each agent", []profile{offering("a", "1.0.0", "s", "t", "s"), offering("b", "1.0.0", "t", "s")}, "a b"},
		{"nobody", []profile{offering("a", "1.0.0", "t")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := registryOf(test.agents...).Snapshot()
			if got := offerers(ability(s, "s")); got != test.want {
				t.Errorf("Ability(s) = %q, want %q", got, test.want)
			}
			found, err := s.Find(registry.Query{Ability: "s"})
			if err != nil {
				t.Fatal(err)
			}
			if got := offerers(registry.Offers(found, "s")); test.name != "others are not there" && got != test.want {
				t.Errorf("Offers(Find(s)) = %q, want %q", got, test.want)
			}
		})
	}
}

// TestOffersByName checks that agents that were found by a skill's name are sorted as well, and that the id of a skill takes precedence over the name
// of another.
func TestOffersByName(t *testing.T) {
	a := offering("a", "1.0.0", "s:0.9", "t:0.1")
	a.skills[0].Name = "T"
	s := registryOf(a, offering("b", "1.0.0", "t:0.5"), offering("c", "1.0.0", "u")).Snapshot()
	for ability, want := range map[string]string{"t": "b/t a/t", "T": "a/s b/t", "u": "c/u", "x": ""} {
		var got []string
		for _, o := range registry.Offers(s.Agents(), ability) {
			got = append(got, o.Record.ID+"/"+o.Skill.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Offers(%q) = %v, want %s", ability, got, want)
		}
	}
}

// TestManyOffersAreOrdered checks the order of ids among so many equals that an unstable sort would mix them.
func TestManyOffersAreOrdered(t *testing.T) {
	var agents []profile
	var want []string
	for i := range 200 {
		agents = append(agents, offering(fmt.Sprintf("agent-%03d", i), "1.0.0", fmt.Sprintf("s:0.%d", 1+i*7%3)))
	}
	for _, rest := range []int{2, 1, 0} { // of the confidence
		for i, a := range agents {
			if i*7%3 == rest {
				want = append(want, a.id)
			}
		}
	}
	if got := offerers(ability(registryOf(agents...).Snapshot(), "s")); got != strings.Join(want, " ") {
		t.Errorf("Ability(s) = %s, want %v", got, want)
	}
}

func TestAbilities(t *testing.T) {
	nameless := profile{id: "poet", skills: []a2a.AgentSkill{{Name: "Haiku"}}}
	low := 0.3
	nameless.spec.Abilities = map[string]agentcard.Ability{"Haiku": {Confidence: &low}}
	r := registryOf(offering("b", "1.0.0", "search:0.4", "compare"), offering("a", "1.0.0", "search"), nameless)
	view := func() []string {
		var list []string
		for _, ability := range r.Snapshot().Abilities() {
			line := ability.ID + ":"
			for _, o := range ability.Offers {
				line += fmt.Sprintf(" %s/%s %v %s", o.Record.ID, o.Skill.Name, o.Confidence(), o.Spec.DispatchKey)
			}
			list = append(list, line)
		}
		return list
	}
	want := []string{"Haiku: poet/Haiku 0.3 ", "compare: b/COMPARE 0.5 ", "search: a/SEARCH 0.5  b/SEARCH 0.4 do_search"}
	if d := gocmp.Diff(want, view()); d != "" {
		t.Errorf("Abilities() differs (-want +got):\n%s", d)
	}
	before := r.Snapshot()
	r.Apply(offering("a", "1.0.0", "sing").event())
	want = []string{"Haiku: poet/Haiku 0.3 ", "compare: b/COMPARE 0.5 ", "search: b/SEARCH 0.4 do_search", "sing: a/SING 0.5 "}
	if d := gocmp.Diff(want, view()); d != "" {
		t.Errorf("Abilities() after an update differs (-want +got):\n%s", d)
	}
	if got := offerers(ability(before, "search")); got != "a b" {
		t.Errorf("the snapshot from before gives %q, want a b", got)
	}
}

// TestAbilitiesAreMadeOnce checks that concurrent readers of one snapshot share one list.
func TestAbilitiesAreMadeOnce(t *testing.T) {
	s := registryOf(offering("a", "1.0.0", "s"), offering("b", "1.0.0", "s")).Snapshot()
	views := make([][]registry.Ability, 8)
	var readers sync.WaitGroup
	for i := range views {
		readers.Go(func() { views[i] = s.Abilities() })
	}
	readers.Wait()
	for i, v := range views {
		if &v[0] != &views[0][0] {
			t.Errorf("reader %d has a projection of its own", i)
		}
	}
	if !slices.ContainsFunc(views[0], func(a registry.Ability) bool { return a.ID == "s" && len(a.Offers) == 2 }) {
		t.Errorf("Abilities() = %v, want s of two agents", views[0])
	}
}

// TestStrictAbilitiesInAnyOrder checks that in any order of events no two accepted agents offer the same ability, and that agents are refused only
// because of abilities of accepted ones.
func TestStrictAbilitiesInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	r := registry.New(registry.Config{Tenant: "t", StrictAbilities: true})
	refused := 0
	for range 5000 {
		k := profile{id: fmt.Sprintf("agent%d", rng.IntN(12)), draining: rng.IntN(5) == 0}
		for s := range 6 {
			if rng.IntN(4) == 0 {
				k.skills = append(k.skills, a2a.AgentSkill{ID: fmt.Sprintf("s%d", s)})
			}
		}
		if e := k.event(); rng.IntN(4) == 0 {
			r.Apply(cardEvent(&transport.Card{AgentID: k.id, Instance: "1", Gone: transport.GoneLeft}))
		} else {
			r.Apply(e)
		}
		holder := map[string]string{}
		for _, a := range r.Snapshot().Agents() {
			for _, s := range a.Card.Skills {
				if by := holder[s.ID]; by != "" && a.Refused == "" {
					t.Fatalf("%s and %s both have %s", by, a.ID, s.ID)
				}
				if a.Refused == "" {
					holder[s.ID] = a.ID
				}
			}
		}
		for _, a := range r.Snapshot().Agents() {
			if a.Refused == "" {
				continue
			}
			refused++
			if !slices.ContainsFunc(a.Card.Skills, func(s a2a.AgentSkill) bool { return holder[s.ID] != "" }) {
				t.Fatalf("%s is refused since %s; the abilities are %v", a.ID, a.Refused, holder)
			}
		}
	}
	if refused == 0 {
		t.Error("nobody was ever refused")
	}
}

// BenchmarkAbilities measures the list of abilities of 10,000 agents with three skills each.
func BenchmarkAbilities(b *testing.B) {
	var agents []profile
	for i := range benchAgents {
		agents = append(agents, offering(fmt.Sprintf("agent-%05d", i), "1.2.3", fmt.Sprintf("skill-%d:0.9", i%1000), fmt.Sprintf("other-%d", i), "common:0.4"))
	}
	r := registryOf(agents...)
	for i := 0; b.Loop(); i++ {
		r.Apply(offering("agent-00000", "1.2.3", fmt.Sprintf("skill-%d", i)).event())
		if got := len(ability(r.Snapshot(), "common")); got != benchAgents-1 {
			b.Fatalf("%d offers, want %d", got, benchAgents-1)
		}
	}
}
