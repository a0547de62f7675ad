package registry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// DefaultConfidence is the confidence of an agent that states none. It ranks between agents that recommend and agents that warn of themselves.
const DefaultConfidence = 0.5

// Offer is an ability as offered by one agent.
type Offer struct {
	Record *Record
	Skill  *a2a.AgentSkill   // of the record's card; shared, read-only
	Spec   agentcard.Ability // what the agent's spec adds to the card

	version *semver.Version // of the record; nil: not a semantic version
}

// Confidence returns the agent's own estimate of its quality, from 0 to 1, or [DefaultConfidence].
func (o *Offer) Confidence() float64 {
	if o.Spec.Confidence == nil {
		return DefaultConfidence
	}
	return *o.Spec.Confidence
}

// Ability is a skill's id with all agents that offer it.
type Ability struct {
	ID     string  // of the skill; its name if it has no id
	Offers []Offer // the best first: the most confident, then the newest version, then the lowest agent id
}

// Abilities returns the abilities of all agents, sorted by id, including agents that may not be given work: see [Record.Routable]. The list is built
// on the first call. The slice and its elements are shared and read-only.
func (s *Snapshot) Abilities() []Ability { return s.abilities() }

// Offers returns the offers of records that match ability as [Query.Ability] does, the best first, as in [Ability].
func Offers(records []*Record, ability string) []Offer {
	var offers []Offer
	v := versions{}
	for _, r := range records {
		if s := skillOf(r, ability); s != nil {
			offers = append(offers, v.offer(r, s))
		}
	}
	slices.SortFunc(offers, compareOffers)
	return offers
}

// abilities returns the abilities of agents, which are sorted by id.
func abilities(agents []*Record) []Ability {
	all, v := map[string][]Offer{}, versions{}
	for _, r := range agents {
		for i := range r.Card.Skills {
			s := &r.Card.Skills[i]
			id := agentcard.SkillID(s)
			if offers := all[id]; len(offers) == 0 || offers[len(offers)-1].Record != r { // a card may list a skill twice
				all[id] = append(offers, v.offer(r, s))
			}
		}
	}
	list := make([]Ability, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		slices.SortFunc(all[id], compareOffers)
		list = append(list, Ability{id, all[id]})
	}
	return list
}

func (v versions) offer(r *Record, s *a2a.AgentSkill) Offer {
	return Offer{Record: r, Skill: s, Spec: r.Spec.Abilities[agentcard.SkillID(s)], version: v.of(r.Version)}
}

func compareOffers(a, b Offer) int {
	return cmp.Or(
		cmp.Compare(b.Confidence(), a.Confidence()),
		compareVersions(b.version, a.version),
		cmp.Compare(a.Record.ID, b.Record.ID),
	)
}
