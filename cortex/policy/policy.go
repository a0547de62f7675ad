// Package policy has the rules by which agents may be given work: who may ask which of them, what needs the user's consent, and how much an agent
// gets at a time. The operator of Cortex writes the rules in a file; without one everything is allowed.
//
//	tenants:
//	  deny: ["evil-*"]             # nothing is done for them
//	rules:
//	  - agents: ["agent_pay", "bank-*"]
//	    only_from: ["user:alice"]  # nobody else may ask them
//	  - agents: ["bank-*"]
//	    skills: ["transfer"]
//	    confirm: true              # each of these needs the user's consent
//	  - agents: ["mcp_fs"]
//	    confirm: false             # these need none, although the agent's card asks for it
//	  - agents: ["shell"]
//	    from: ["agent_*", "user:guest-*"]
//	    allow: false               # these may not ask it
//	  - agents: ["agent_pay"]
//	    at_once: 2                 # tasks under way with it, of all conversations together
//	    per_turn: 3                # tasks that one turn may give it, including those that agents ask for in the course of it
//	  - agents: ["watcher"]
//	    requests_per_minute: 120   # its own requests, a third of which may come at once; the default is 30
//	  - agents: ["bank-*"]
//	    retry:                     # of tasks that they did not do
//	      others: false            # no other agent gets them
//	      attempts: 2              # a task is tried at most twice in all; 1: never again
//	  - agents: ["bank-*", "mcp_*"]
//	    evaluators: [no_pii, no_keys]  # their results are checked
//	  - agents: ["pricey-*"]
//	    bids: false                # they are not asked to bid, whatever their cards say
//	    board: false               # nor do they use the board of their task
//	  - agents: ["bank-*"]
//	    skills: ["transfer"]
//	    calls: {most: 5, per: 1h, by: person}  # of each skill, in any hour, by all replicas together; by: asker (the default), person, all
//	    repeat: {within: 10m, gives: result}   # the same once more is not done: its answer is the first result; without gives it is refused
//	  - agents: ["analyst-*"]
//	    swarm: {agents: 3}         # a task for one of them is given to three whose cards say so, see [Swarm]
//	evaluators:                    # what else than no_pii there is, see package evaluate
//	  no_keys: {rules: ['AKIA[0-9A-Z]{16}'], action: fail}
//	  relevance: {threshold: 0.6}  # a language model judges
//
// What no rule mentions is allowed. All matching rules apply, in any order: a rule that denies takes precedence over all others, an asker has to be
// in every only_from, and of several limits the lowest applies. So every rule restricts something; a rule that does not, such as allow: true, is an
// error. There are three exceptions. The lowest requests_per_minute replaces the default, and may be higher. And confirm: false waives the consent that
// an agent's card asks for, unless another rule has confirm: true. And swarm has several
// agents do one task. What an agent asks for in the same conversation while it works on a task is part
// of that task's turn, and counts towards its limits.
//
// Without any rule, an agent that has more tasks than it can take gets them in turn from its requesters: the fifth open task of a requester and later
// ones wait with those of the others, and not before them.
//
// A task that an agent did not do is tried again: by the same agent where its card allows that, then by others with the same skill, [MaxAttempts]
// times in all. A rule about any agent that had the task can end that earlier. A task that waited for an agent until its deadline, and was never
// handed to it, does not count as an attempt; others get it unless others is false.
//
// Results are checked by the evaluators of all matching rules, and by those that the agent's card names if the file has them, in the order of the file, but
// those with rules before those for which a model judges. They change what they match (redact) or have the task fail; asking the user, as agents' own
// evaluators can, is not possible here.
//
// A glob has the syntax of [path.Match], but * also matches /. agents are ids. skills are ids of skills, or their names where they have no id. Askers
// are "user" or "user:NAME" for people, and the ids of agents, which ask on behalf of whom they work for. A rule with skills relies on the names on
// the agent's own card: leave skills out for a rule that the agent cannot evade. Where such a rule has retry, evaluators, calls or repeat, an agent with
// several skills is asked for one by its id only.
package policy

import (
	"slices"

	"github.com/cortex-orchestrator/cortex/evaluate"
)

// Policy is a set of rules. It is immutable and safe for concurrent use. A nil Policy allows everything.
type Policy struct {
	denied globs // tenants
	rules  []*rule
	memo   memo

	evaluators []evaluate.Evaluator // no_pii first, if the file says nothing of it
}

// rule is a rule of the file.
type rule struct {
	agents, skills, from, only globs
	deny, confirm, waive       bool
	atOnce, perTurn            int  // 0: no limit
	requests                   int  // per minute, by its agents; 0: not specified
	alone                      bool // tasks that its agents did not do are given to no others
	attempts                   int  // 0: no limit
	closed                     bool // its agents are not asked to bid
	boardless                  bool // its agents use no board
	swarm                      *Swarm
	calls                      *Calls
	repeat                     *Repeat
	evaluators                 []string
}

// Rules returns the number of rules.
func (p *Policy) Rules() int {
	if p == nil {
		return 0
	}
	return len(p.rules)
}

// DeniesTenant reports whether nothing may be done for a tenant.
func (p *Policy) DeniesTenant(tenant string) bool {
	return p != nil && p.denied.match(tenant)
}

// Any reports whether there is a rule about an agent. Without one, everybody may ask it for everything.
func (p *Policy) Any(agent string) bool { return len(p.about(agent)) > 0 }

// Allows reports whether from may ask an agent for one of its skills. Without a skill it reports whether from may ask the agent at all, ignoring
// rules about skills.
func (p *Policy) Allows(from, agent, skill string) bool {
	return !slices.ContainsFunc(p.about(agent), func(r *rule) bool {
		return r.forSkill(skill) && (r.deny && r.isFrom(from) || len(r.only) > 0 && !r.only.match(from))
	})
}

// Confirms reports whether a rule requires the user's consent before an agent is given from's request for one of its skills. Without a skill it
// ignores rules about skills.
func (p *Policy) Confirms(from, agent, skill string) bool {
	return slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.confirm && r.forSkill(skill) && r.isFrom(from) })
}

// Waives reports whether a rule waives the consent that an agent's card asks for, for from's requests for one of its skills. Without a skill it
// ignores rules about skills.
func (p *Policy) Waives(from, agent, skill string) bool {
	return slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.waive && r.forSkill(skill) && r.isFrom(from) })
}

// Distinguishes reports whether a rule about skills says how often from may call, or try, this one of an agent, or what checks its results. A request
// that names none of several skills would evade it.
func (p *Policy) Distinguishes(from, agent, skill string) bool {
	return slices.ContainsFunc(p.about(agent), func(r *rule) bool {
		return len(r.skills) > 0 && r.forSkill(skill) && r.isFrom(from) && (r.calls != nil || r.repeat != nil || r.alone || r.attempts > 0 || len(r.evaluators) > 0)
	})
}

// AtOnce returns how many tasks may be under way with an agent, of all conversations together; 0 is unlimited.
func (p *Policy) AtOnce(agent string) int {
	return p.least(agent, func(r *rule) int { return r.atOnce })
}

// PerTurn returns how many tasks one turn, including its descendants, may give to an agent; 0 is unlimited.
func (p *Policy) PerTurn(agent string) int {
	return p.least(agent, func(r *rule) int { return r.perTurn })
}

// Requests returns how often per minute an agent may make requests that no task of its own causes; 0 means that no rule specifies it.
func (p *Policy) Requests(agent string) int {
	return p.least(agent, func(r *rule) int { return r.requests })
}

// Bids reports whether an agent whose card says that it bids for tasks is asked to.
func (p *Policy) Bids(agent string) bool {
	return !slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.closed })
}

// Board reports whether an agent whose card says that it uses the board of its task may do so.
func (p *Policy) Board(agent string) bool {
	return !slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.boardless })
}

// Others reports whether a request of from that an agent did not do may be given to another agent. Without a skill it ignores rules about skills.
func (p *Policy) Others(from, agent, skill string) bool {
	return !slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.alone && r.forSkill(skill) && r.isFrom(from) })
}

// Attempts returns how many attempts are made in all at a request of from to an agent, from 1 to [MaxAttempts]. Without a skill it ignores rules
// about skills.
func (p *Policy) Attempts(from, agent, skill string) int {
	most := MaxAttempts
	for _, r := range p.about(agent) {
		if r.attempts > 0 && r.forSkill(skill) && r.isFrom(from) {
			most = min(most, r.attempts)
		}
	}
	return most
}

// Evaluators returns what checks the results of an agent for from's requests for one of its skills; card has the names that the agent's card gives.
// Without a skill it ignores rules about skills.
func (p *Policy) Evaluators(from, agent, skill string, card []string) []evaluate.Evaluator {
	if p == nil {
		return nil
	}
	names := slices.Clip(card)
	for _, r := range p.about(agent) {
		if r.forSkill(skill) && r.isFrom(from) {
			names = append(names, r.evaluators...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var all []evaluate.Evaluator
	for _, e := range p.evaluators {
		if slices.Contains(names, e.Name) {
			all = append(all, e)
		}
	}
	return all
}

// Judged returns the name of an evaluator that needs a language model, or "".
func (p *Policy) Judged() string {
	if p != nil {
		for i := range p.evaluators {
			if p.evaluators[i].Judged() {
				return p.evaluators[i].Name
			}
		}
	}
	return ""
}

func (p *Policy) least(agent string, limit func(*rule) int) int {
	least := 0
	for _, r := range p.about(agent) {
		if n := limit(r); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// about returns the rules about an agent. It caches them: a decision asks for each agent several times.
func (p *Policy) about(agent string) []*rule {
	if p == nil || len(p.rules) == 0 {
		return nil
	}
	if rules, ok := p.memo.get(agent); ok {
		return rules
	}
	var rules []*rule
	for _, r := range p.rules {
		if r.agents.match(agent) {
			rules = append(rules, r)
		}
	}
	p.memo.put(agent, rules)
	return rules
}

func (r *rule) forSkill(skill string) bool {
	return len(r.skills) == 0 || skill != "" && r.skills.match(skill)
}

func (r *rule) isFrom(from string) bool { return len(r.from) == 0 || r.from.match(from) }
