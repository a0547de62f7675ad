package fake

import (
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// finder searches the agents of a turn that has no search of its own. It caches the index of the latest agents.
type finder struct {
	mu     sync.Mutex
	agents []prompt.Agent
	index  *router.Index
}

// search returns the search of t, or one of the finder's own.
func (f *finder) search(t *llm.Turn) func(words string) []llm.Found {
	if t.Search != nil {
		return t.Search
	}
	return func(words string) []llm.Found {
		var found []llm.Found
		index := f.of(t.Agents)
		for _, h := range index.Search(words, nil) {
			i := slices.IndexFunc(t.Agents, func(a prompt.Agent) bool { return a.ID == h.ID })
			found = append(found, llm.Found{Agent: t.Agents[i], Score: h.Score, Fits: h.Score >= router.Fits, Skills: h.Skills})
		}
		return found
	}
}

// of returns an index of agents.
func (f *finder) of(agents []prompt.Agent) *router.Index {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.index == nil || !same(f.agents, agents) {
		f.agents, f.index = agents, router.New(nil)
		for i := range agents {
			f.index.Put(agents[i].ID, agents[i].Card)
		}
	}
	return f.index
}

func same(a, b []prompt.Agent) bool {
	return slices.EqualFunc(a, b, func(x, y prompt.Agent) bool { return x.ID == y.ID && x.Card == y.Card })
}
