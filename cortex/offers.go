package cortex

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// offers keeps what prompts can show of the agents that were there last, so that it is worked out once for all
// conversations, and shared by them. It is safe for concurrent use. The zero value is empty.
type offers struct {
	last atomic.Pointer[offer]

	mu      sync.Mutex
	digests map[string]cardDigest // by agent
}

type offer struct {
	agents  []prompt.Agent // as they came
	trimmed []prompt.Agent // never changed
	fits    bool
}

type cardDigest struct {
	card   *a2a.AgentCard // which never changes
	digest string
}

// maxDigests bounds the digests that are kept.
const maxDigests = 16 << 10

// trim returns agents as prompts show them: the same slice for as long as nothing has changed that is shown. It returns nil
// when they are too many to be listed in the log.
func (o *offers) trim(agents []prompt.Agent) []prompt.Agent {
	if len(agents) > maxListed {
		return nil
	}
	last := o.last.Load()
	if last == nil || !sameAgents(last.agents, agents) {
		last = last.next(agents)
		o.last.Store(last)
	}
	if !last.fits {
		return nil
	}
	return last.trimmed
}

func (o *offer) next(agents []prompt.Agent) *offer {
	next := &offer{agents: agents, trimmed: make([]prompt.Agent, len(agents))}
	size := 0
	for i := range agents {
		if o != nil && i < len(o.agents) && sameAgent(&o.agents[i], &agents[i]) {
			next.trimmed[i] = o.trimmed[i]
		} else {
			next.trimmed[i] = prompt.Trim(agents[i])
		}
		size += conversation.AgentWeight(&next.trimmed[i])
	}
	next.fits = size <= maxListedBytes
	return next
}

// digest is [prompt.Digest] of a's card.
func (o *offers) digest(a *prompt.Agent) string {
	o.mu.Lock()
	known := o.digests[a.ID]
	o.mu.Unlock()
	if known.card == a.Card && known.digest != "" {
		return known.digest
	}
	digest := prompt.Digest(a.Card)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.digests == nil || len(o.digests) >= maxDigests {
		o.digests = map[string]cardDigest{}
	}
	o.digests[a.ID] = cardDigest{a.Card, digest}
	return digest
}

// offer lets t, which shows the whole history of turn, show the agents that can be given work. With anew the list of agents
// begins anew. from is nil when there is nothing that could choose some of them; listed are all of them as prompts show them, or
// nil. It returns what is new to the prompt, and, if the agents were chosen, which ones.
func offerAgents(c *conversation.Conversation, t *llm.Turn, turn *conversation.Turn, from *candidates, listed []prompt.Agent, anew bool) (*conversation.Roster, []conversation.Candidate) {
	anew = anew || c.Relist || c.Listed == nil
	if from != nil && chooses(c, from, listed, anew) {
		s := from.choose(t)
		roster := listChoice(c, t, turn, s, anew || !c.Choice)
		return roster, s.logged()
	}
	return listAgents(c, t, turn, listed, anew || c.Choice), nil
}

// chooses reports whether a prompt shows a choice. One that did goes on with it until there are so few agents that a choice would
// have them all: else agents that come and go would change the instructions again and again.
func chooses(c *conversation.Conversation, from *candidates, listed []prompt.Agent, anew bool) bool {
	n := len(from.agents)
	return listed == nil || n > MaxAgents || (c.Choice && !anew && n > from.limit)
}

// offer lets t show the agents that the turn can give work to.
func (d *decision) offer(t *llm.Turn, anew bool) {
	t.Agents, t.Unavailable = d.agents, d.unavailable
	var from *candidates
	if index := d.o.cfg.Router; index != nil {
		from = newCandidates(index, d.agents, d.unavailable, d.o.cfg.Shortlist, &d.o.offers)
		if old := d.candidates; old != nil && slices.Equal(old.unavailable, d.unavailable) && sameAgents(old.agents, d.agents) {
			from = old
		}
		d.candidates = from
	}
	d.roster, d.shortlist = offerAgents(d.conv, t, d.turn, from, d.o.offers.trim(d.visible()), anew)
}

// visible returns the agents that a list of all may show: those that can be given work, those that cannot at the moment, and
// those that handed the request on, which can in other turns. nil stands for too many.
func (d *decision) visible() []prompt.Agent {
	if len(d.all) == len(d.agents) || len(d.agents) > maxListed {
		return d.all
	}
	shown := slices.Clone(d.agents)
	add := func(id string) {
		if _, ok := findSorted(d.agents, id); ok {
			return
		}
		if a, ok := findSorted(d.all, id); ok {
			shown = append(shown, a)
		}
	}
	for i := range d.unavailable {
		add(d.unavailable[i].ID)
	}
	if conversation.IsAgent(d.turn.From) {
		add(d.turn.From)
		for _, id := range d.turn.Ancestors {
			add(id)
		}
	}
	slices.SortFunc(shown, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(shown, func(a, b prompt.Agent) bool { return a.ID == b.ID })
}

// findSorted finds an agent among agents in the order of their ids.
func findSorted(agents []prompt.Agent, id string) (prompt.Agent, bool) {
	i := sort.Search(len(agents), func(i int) bool { return agents[i].ID >= id })
	if i == len(agents) || agents[i].ID != id {
		return prompt.Agent{}, false
	}
	return agents[i], true
}
