package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// TestLearnStepByStep checks that an index whose evidence and cards were changed step by step equals one that was built from the final state.
func TestLearnStepByStep(t *testing.T) {
	texts := append(append([]string{}, gardening...), "water the tulips at noon", "", "mow the lawn behind the house", "prune the roses in my garden")
	es := did(texts...)
	for i := range es {
		es[i].Time = noon.Add(-time.Duration(len(es)-i) * time.Hour)
		es[i].Skill = []string{"", "garden", "lights"}[i%3]
	}
	x, _ := timed(t)
	c := card("Green", "cares for plants")
	c.Skills[0].ID = "garden"
	x.Put("agent_green", c)
	for n := range es {
		x.Learn("agent_green", es[max(0, n-5):n+1])
		if n == 3 {
			c.Skills[0].ID = "lights"
			x.Put("agent_green", c)
		}
	}
	x.Learn("agent_lights", es[2:4])
	x.Learn("agent_lights", nil)
	x.Learn("agent_green", es[1:6])
	c.Skills[0].ID, c.Description = "garden", "cares for gardens"
	x.Put("agent_green", c)

	fresh, _ := timed(t)
	fresh.Learn("agent_green", es[1:6])
	fresh.Put("agent_green", c)
	for _, text := range append(texts, "prune the tulips", "turn on the lights in the garden") {
		if d := cmp.Diff(fresh.Search(text, &router.SearchOptions{Limit: 100}), x.Search(text, &router.SearchOptions{Limit: 100})); d != "" {
			t.Errorf("Search(%q) differs (-fresh +grown):\n%s", text, d)
		}
	}
}

// TestNothingIsReadTwice checks that an unchanged card and unchanged evidence are not parsed again.
func TestNothingIsReadTwice(t *testing.T) {
	x := router.New(nil)
	c := card("Green", "cares for plants")
	es := did(gardening...)
	x.Put("agent_green", c)
	x.Learn("agent_green", es)
	read := x.Read()
	if read == 0 {
		t.Fatal("no text was read")
	}
	for i := range es {
		es[i].Time = es[i].Time.Add(time.Minute)
	}
	same := *c
	x.Put("agent_green", &same)
	x.Learn("agent_green", es[1:])
	if n := x.Read() - read; n != 0 {
		t.Errorf("%d texts were read again", n)
	}
	read = x.Read()
	tulips := did("water the tulips")
	tulips[0].ID = "tulips"
	x.Learn("agent_green", append(tulips, es[:3]...)) // one of them was removed
	if n := x.Read() - read; n != 2 {
		t.Errorf("%d texts were read, want the two new ones", n)
	}
	c.Skills[0].Examples = append(c.Skills[0].Examples, "feed the ferns")
	read = x.Read()
	x.Put("agent_green", c)
	if x.Read() == read {
		t.Error("a card that has changed was not read")
	}
}

// TestPutSeesEveryChange checks that every change of a part of a card that is parsed changes the results.
func TestPutSeesEveryChange(t *testing.T) {
	for name, set := range map[string]func(c *a2a.AgentCard, s *a2a.AgentSkill, word string){
		"name":            func(c *a2a.AgentCard, _ *a2a.AgentSkill, word string) { c.Name = word },
		"description":     func(c *a2a.AgentCard, _ *a2a.AgentSkill, word string) { c.Description = word },
		"id of a skill":   func(_ *a2a.AgentCard, s *a2a.AgentSkill, word string) { s.ID, s.Name = word, "" },
		"name of a skill": func(_ *a2a.AgentCard, s *a2a.AgentSkill, word string) { s.Name = word },
		"text of a skill": func(_ *a2a.AgentCard, s *a2a.AgentSkill, word string) { s.Description = word },
		"tag":             func(_ *a2a.AgentCard, s *a2a.AgentSkill, word string) { s.Tags = []string{word} },
		"example":         func(_ *a2a.AgentCard, s *a2a.AgentSkill, word string) { s.Examples = []string{word} },
	} {
		x := router.New(nil)
		c := card("a", "b")
		for _, word := range []string{"elephants", "tigers"} {
			set(c, &c.Skills[0], word)
			x.Put("zoo", c)
			if hits := x.Search(word, nil); len(hits) != 1 {
				t.Errorf("%s: Search(%q) = %v, want the agent whose card has it now", name, word, hits)
			}
		}
	}
}

// TestKeepBeyondTheBest checks that agents are found behind many better ones that Keep rejects.
func TestKeepBeyondTheBest(t *testing.T) {
	x := router.New(nil)
	for i := range 200 {
		x.Put(fmt.Sprintf("best_%03d", i), card("Roses", "prunes roses in gardens"))
	}
	x.Put("other", card("Gardens", "cares for gardens of all kinds, with paths and ponds and sheds"))
	asked := 0
	hits := x.Search("prune the roses in my garden", &router.SearchOptions{Keep: func(id string) bool {
		asked++
		return !strings.HasPrefix(id, "best_")
	}})
	if len(hits) != 1 || hits[0].ID != "other" {
		t.Errorf("Search = %v, want the one that is kept", hits)
	}
	asked = 0
	hits = x.Search("prune the roses in my garden", &router.SearchOptions{Keep: func(string) bool { asked++; return true }})
	if len(hits) != 20 || hits[0].ID != "best_000" || asked > 64 {
		t.Errorf("Search = %d hits, the first %v, and asked about %d agents, want 20 and at most 64", len(hits), hits[0], asked)
	}
}
