package catalog

import (
	"sort"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// MaxAgents is the number of agents up to which a prompt lists all; of more it lists a shortlist.
const MaxAgents = 40

// Catalog caches what prompts show of the present agents, so that it is computed once and shared by all conversations. It is safe for concurrent use.
// The zero value is empty.
type Catalog struct {
	last atomic.Pointer[listing]

	mu      sync.Mutex
	digests map[string]cardDigest           // by agent
	found   recent.Cache[[2]string, *found] // by tenant and turn
}

// listing is a full list of agents.
type listing struct {
	agents  []prompt.Agent // as passed to Trim
	trimmed []prompt.Agent // immutable
	fits    bool
}

type cardDigest struct {
	card   weak.Pointer[a2a.AgentCard] // of an agent that may have left, so it is not kept
	digest string
}

// maxDigests bounds the cached digests.
const maxDigests = 16 << 10

// Trim returns agents as prompts show them. It returns the same slice until something visible changes, and nil when there are too many agents to list
// in the log.
func (c *Catalog) Trim(agents []prompt.Agent) []prompt.Agent {
	if len(agents) > MaxListed {
		return nil
	}
	last := c.last.Load()
	if last == nil || !Same(last.agents, agents) {
		last = last.next(agents)
		c.last.Store(last)
	}
	if !last.fits {
		return nil
	}
	return last.trimmed
}

func (l *listing) next(agents []prompt.Agent) *listing {
	next := &listing{agents: agents, trimmed: make([]prompt.Agent, len(agents))}
	size := 0
	for i := range agents {
		if l != nil && i < len(l.agents) && sameAgent(&l.agents[i], &agents[i]) {
			next.trimmed[i] = l.trimmed[i]
		} else {
			next.trimmed[i] = prompt.Trim(agents[i])
		}
		size += conversation.AgentWeight(&next.trimmed[i])
	}
	next.fits = size <= maxListedBytes
	return next
}

// digest returns [prompt.Digest] of a's card, cached.
func (c *Catalog) digest(a *prompt.Agent) string {
	card := weak.Make(a.Card)
	c.mu.Lock()
	known := c.digests[a.ID]
	c.mu.Unlock()
	if known.card == card && known.digest != "" {
		return known.digest
	}
	digest := prompt.Digest(a.Card)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.digests == nil || len(c.digests) >= maxDigests {
		c.digests = map[string]cardDigest{}
	}
	c.digests[a.ID] = cardDigest{card, digest}
	return digest
}

// Offer adds to t, which shows the whole history of turn, the agents that can be given work. With anew the list of agents starts over. from is nil
// when nothing can choose a shortlist; listed are all agents as prompts show them (see [Catalog.Trim]), or nil. Offer returns what is new to the
// prompt, and the shortlist if it chose one.
func Offer(c *conversation.Conversation, t *llm.Turn, turn *conversation.Turn, from *Candidates, listed []prompt.Agent, anew bool) (*conversation.Roster, []conversation.Shortlisted) {
	anew = anew || c.Relist || c.Listed == nil
	if from != nil && chooses(c, from, listed, anew) {
		s := from.choose(t)
		roster := listChoice(c, t, turn, s, anew || !c.Choice)
		return roster, s.logged()
	}
	return listAgents(c, t, turn, listed, anew || c.Choice), nil
}

// chooses reports whether a prompt shows a shortlist. A conversation that has one keeps it until all agents fit into a shortlist; otherwise agents
// that come and go would change the instructions again and again.
func chooses(c *conversation.Conversation, from *Candidates, listed []prompt.Agent, anew bool) bool {
	n := len(from.agents)
	return listed == nil || n > MaxAgents || (c.Choice && !anew && n > from.limit)
}

// Find returns the agent with an id from agents, which are sorted by id.
func Find(agents []prompt.Agent, id string) (prompt.Agent, bool) {
	i := sort.Search(len(agents), func(i int) bool { return agents[i].ID >= id })
	if i == len(agents) || agents[i].ID != id {
		return prompt.Agent{}, false
	}
	return agents[i], true
}
