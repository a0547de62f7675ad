package catalog_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func actor(id, does string) prompt.Agent {
	return prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Description: does, Version: "1"}}
}

func actors(n int) []prompt.Agent {
	var list []prompt.Agent
	for i := range n {
		list = append(list, actor(fmt.Sprintf("agent-%03d", i), "one of many"))
	}
	return list
}

// TestUnchangedAgentsCostNothing checks that detecting changes is free when there are none.
func TestUnchangedAgentsCostNothing(t *testing.T) {
	var known catalog.Catalog
	agents := actors(64)
	first := known.Trim(agents)
	again := slices.Clone(agents) // as a registry returns them: another slice with the same cards
	anew := actors(64)            // as another caller may
	for name, now := range map[string][]prompt.Agent{"same slice": agents, "same cards": again, "same texts": anew} {
		if got := known.Trim(now); &got[0] != &first[0] {
			t.Errorf("%s: another list", name)
		}
		if n := testing.AllocsPerRun(10, func() { known.Trim(now) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
	anew[7] = actor(anew[7].ID, "another")
	changed := known.Trim(anew)
	if &changed[0] == &first[0] || changed[7].Card.Description != "another" || changed[6].Card != first[6].Card {
		t.Error("after a change: want another list that shares what is the same")
	}
}

// TestTurnIsSearchedOnce checks that the choice of a turn is kept for its next decision, and made anew for other agents, other words or another turn.
func TestTurnIsSearchedOnce(t *testing.T) {
	agents, index, known := actors(100), router.New(nil), new(catalog.Catalog)
	agents[42] = actor("agent-042", "sings of wine")
	for _, a := range agents {
		index.Put(a.ID, a.Card)
	}
	conv := conversation.NewConversation("", "c")
	finds := func(id, words string, agents []prompt.Agent) bool {
		turn := &conversation.Turn{ID: id, User: words}
		_, chosen := catalog.Offer(conv, conv.View(turn, time.Time{}), turn, known.Candidates(index, agents, nil, 0), nil, false)
		return slices.ContainsFunc(chosen, func(s conversation.Shortlisted) bool { return s.ID == "agent-042" })
	}
	if !finds("1", "sing of wine", agents) {
		t.Fatal("the agent is not found")
	}
	index.Remove("agent-042") // another search does not find it
	for _, c := range []struct {
		name, id, words string
		want            bool
	}{
		{"next decision", "1", "sing of wine", true},
		{"another turn", "2", "sing of wine", false},
		{"other words", "1", "sing of the wine", false},
	} {
		if got := finds(c.id, c.words, agents); got != c.want {
			t.Errorf("%s: found %t, want %t", c.name, got, c.want)
		}
	}
	index.Put("agent-042", agents[42].Card)
	if !finds("3", "sing of wine", agents) {
		t.Fatal("the agent is not found again")
	}
	index.Remove("agent-042")
	if finds("3", "sing of wine", slices.Clone(agents)) {
		t.Error("other agents: the choice is kept")
	}
}

// heap returns how much memory is in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // of a test
}

// TestSearchesKeepNoWords checks that what is kept of the searches of thousands of turns takes little memory, however long their messages are, and the
// names of the skills that fit them.
func TestSearchesKeepNoWords(t *testing.T) {
	const turns, size = 1000, 64 << 10
	agents, index, known := actors(50), router.New(nil), new(catalog.Catalog)
	for _, a := range agents {
		index.Put(a.ID, a.Card)
	}
	before := heap()
	for i := range turns {
		id := fmt.Sprint(i)
		if i%10 == 0 { // its card is announced anew
			agents = slices.Clone(agents)
			agents[0] = actor(agents[0].ID, "sings of wine")
			agents[0].Card.Skills = []a2a.AgentSkill{{ID: id + strings.Repeat("s", size), Name: "Sing", Description: "Sings of wine"}}
			index.Put(agents[0].ID, agents[0].Card)
		}
		conv := conversation.NewConversation("", id)
		turn := &conversation.Turn{ID: id, User: "sing of wine " + id + strings.Repeat(" ", size)}
		catalog.Offer(conv, conv.View(turn, time.Time{}), turn, known.Candidates(index, agents, nil, 0), nil, false)
	}
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("%d turns of %d KiB each keep %d MB", turns, size>>10, grown>>20)
	}
	runtime.KeepAlive(known)
}

// TestCardsOfThoseWhoLeftAreNotKept checks that agents which come, are shown and leave, one wave after the other, leave no cards behind.
func TestCardsOfThoseWhoLeftAreNotKept(t *testing.T) {
	const waves, each, size = 20, 50, 60 << 10
	index, known := router.New(nil), new(catalog.Catalog)
	before := heap()
	for wave := range waves {
		var agents []prompt.Agent
		for i := range each {
			a := actor(fmt.Sprintf("agent-%02d-%02d", wave, i), "sings of wine")
			a.Card.DocumentationURL = strings.Repeat("d", size)
			agents = append(agents, a)
			index.Put(a.ID, a.Card)
		}
		conv := conversation.NewConversation("", "c")
		turn := &conversation.Turn{ID: fmt.Sprint(wave), User: "sing of wine"}
		if _, chosen := catalog.Offer(conv, conv.View(turn, time.Time{}), turn, known.Candidates(index, agents, nil, 40), nil, false); len(chosen) == 0 {
			t.Fatal("nobody is shown")
		}
		for i := range agents {
			index.Remove(agents[i].ID)
		}
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("%d agents that have left keep %d MB", waves*each, grown>>20)
	}
	runtime.KeepAlive(known)
}
