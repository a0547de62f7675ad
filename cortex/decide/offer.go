package decide

import (
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// offer lets t show the agents that the turn can give work to.
func (d *decision) offer(t *llm.Turn, anew bool) {
	t.Agents, t.Unavailable = d.agents, d.unavailable
	var from *catalog.Candidates
	if index := d.m.cfg.Router; index != nil {
		from = d.m.catalog.Candidates(index, d.agents, d.unavailable, d.m.cfg.Shortlist)
		if old := d.candidates; old != nil && old.Are(d.agents, d.unavailable) {
			from = old
		}
		d.candidates = from
	}
	d.roster, d.shortlist = catalog.Offer(d.conv, t, d.turn, from, d.m.catalog.Trim(d.visible()), anew)
}

// visible returns the agents that a list of all may show: those that can be given work, those that cannot at the moment, and
// those that handed the request on, which can in other turns. nil stands for too many.
func (d *decision) visible() []prompt.Agent {
	if len(d.all) == len(d.agents) || len(d.agents) > catalog.MaxListed {
		return d.all
	}
	shown := slices.Clone(d.agents)
	add := func(id string) {
		if _, ok := catalog.Find(d.agents, id); ok {
			return
		}
		if a, ok := catalog.Find(d.all, id); ok {
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
