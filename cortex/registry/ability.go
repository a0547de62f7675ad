package registry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// DefaultConfidence is the confidence of an agent that says none: it comes after those that praise themselves and before those
// that warn of themselves.
const DefaultConfidence = 0.5

// Offer is an ability as one agent offers it.
type Offer struct {
	Record *Record
	Skill  *a2a.AgentSkill   // of the record's card; shared, not to be written to
	Spec   agentcard.Ability // what the agent says of it beyond the card

	version *semver.Version // of the record; nil: not semantic
}

// Confidence returns how good the agent thinks it is, from 0 to 1.
func (o *Offer) Confidence() float64 {
	if o.Spec.Confidence == nil {
		return DefaultConfidence
	}
	return *o.Spec.Confidence
}

// Ability is what agents can do: a skill's id, and all who offer it.
type Ability struct {
	ID     string  // of the skill; the name of one that has no id
	Offers []Offer // the best first: the most confident, then the newest version, then the lowest agent id
}

// Abilities returns what the agents can do, in the order of the ids. Agents that may not be given work are in it: see
// [Record.Routable]. It is made when it is first asked for. The slice and what it holds are shared: they are not to be written to.
func (s *Snapshot) Abilities() []Ability { return s.abilities() }

// Ability returns the offers of the ability with this id, the best first, as in [Ability]; none when nobody offers it. The slice
// is shared: it is not to be written to.
func (s *Snapshot) Ability(id string) []Offer {
	all := s.abilities()
	i, ok := slices.BinarySearchFunc(all, id, func(a Ability, id string) int { return cmp.Compare(a.ID, id) })
	if !ok {
		return nil
	}
	return all[i].Offers
}

// Offers returns what those of records offer that fit [Query.Ability], the best first, as in [Ability].
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

// abilities returns the abilities of agents, which are in the order of their ids.
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
