package fake

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestVocabulariesAreBounded lets an agent change its card repeatedly, and then adds many agents with long ones: one card of each agent is cached, at
// most the bound of all together, and very long ones are not. The result always belongs to the present card.
func TestVocabulariesAreBounded(t *testing.T) {
	var c vocabularies
	read := func(id, text string) {
		t.Helper()
		v := c.of([]prompt.Agent{{ID: id, Card: &a2a.AgentCard{Name: id, Description: text}}}, new(scanner))
		if word, _, _ := strings.Cut(text, " "); len(v) != 1 || !v[0].begins(word) {
			t.Fatalf("the vocabulary of %s does not begin with %q", id, word)
		}
		if got := c.kept.Size(); got > maxVocabularies {
			t.Fatalf("%d bytes are kept, at most %d may be", got, maxVocabularies)
		}
	}
	for i := range 100 {
		read("changing", fmt.Sprintf("zk%ct %s", 'a'+i%26, strings.Repeat("evil ", 10_000)))
	}
	if n := c.kept.Len(); n != 1 {
		t.Errorf("%d cards of one agent are kept, want 1", n)
	}
	for i := range 600 {
		read(fmt.Sprintf("agent_%d", i), "paint "+strings.Repeat(fmt.Sprintf("at%d ", i), 20_000))
	}
	var distinct strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&distinct, "%c%c%c%c ", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, 'z')
	}
	before := c.kept.Len()
	read("long", "paint "+distinct.String())
	if c.kept.Len() != before {
		t.Error("a very long card is kept")
	}
	agent := []prompt.Agent{{ID: "steady", Card: &a2a.AgentCard{Name: "steady", Description: "count"}}}
	if first := c.of(agent, new(scanner)); first[0] != c.of(agent, new(scanner))[0] {
		t.Error("a card that stays is read again")
	}
}

// TestVocabulariesKeepNoCards checks that the cards of agents that have left are not kept: what of them is no vocabulary does not count in the bound.
func TestVocabulariesKeepNoCards(t *testing.T) {
	const agents, size = 500, 60 << 10
	var c vocabularies
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) //nolint:gosec // of a test
	}
	before := heap()
	for i := range agents {
		id := fmt.Sprint("agent_", i)
		c.of([]prompt.Agent{{ID: id, Card: &a2a.AgentCard{Name: id, DocumentationURL: strings.Repeat("d", size)}}}, new(scanner))
	}
	if grown := heap() - before; grown > 8<<20 || c.kept.Len() != agents {
		t.Errorf("%d agents keep %d MB, want %d agents and hardly anything", c.kept.Len(), grown>>20, agents)
	}
	runtime.KeepAlive(&c)
}
