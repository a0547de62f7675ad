package policy

import (
	"encoding/json"
)

// Swarm bounds a swarm: a task that is given to several agents at once.
type Swarm struct {
	Agents int // at most, from 2
	Rounds int // at most
	Tokens int // of the texts of all its tasks and results, four bytes each, at most
}

// Bounds and defaults of a Swarm.
const (
	maxSwarmAgents = 8
	maxSwarmRounds = 5
	maxSwarmTokens = 1_000_000

	swarmAgents = 3
	swarmRounds = 2
	swarmTokens = 20_000
)

// Swarm returns the bounds of a swarm that an agent takes part in for from's requests for one of its skills; nil if no rule says that it does. Of several
// rules the lowest bounds apply.
func (p *Policy) Swarm(from, agent, skill string) *Swarm {
	var s *Swarm
	for _, r := range p.about(agent) {
		if r.swarm == nil || !r.forSkill(skill) || !r.isFrom(from) {
			continue
		}
		if s == nil {
			its := *r.swarm
			s = &its
			continue
		}
		s.Agents, s.Rounds, s.Tokens = min(s.Agents, r.swarm.Agents), min(s.Rounds, r.swarm.Rounds), min(s.Tokens, r.swarm.Tokens)
	}
	return s
}

func (r *rule) readSwarm(raw json.RawMessage) error {
	o, err := object(raw, "agents", "rounds", "tokens")
	if err != nil {
		return err
	}
	r.swarm = &Swarm{Agents: swarmAgents, Rounds: swarmRounds, Tokens: swarmTokens}
	f := fields{of: o}
	f.number("agents", &r.swarm.Agents, 2, maxSwarmAgents, "agents")
	f.number("rounds", &r.swarm.Rounds, 1, maxSwarmRounds, "rounds")
	f.number("tokens", &r.swarm.Tokens, 1, maxSwarmTokens, "tokens")
	return f.err
}
