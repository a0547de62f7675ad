// Package policy holds the rules by which agents may be given work: who may ask which of them, what needs a user's yes, and how
// much an agent gets at once. The rules come from a file; without one everything is allowed. Whoever runs Cortex writes it.
//
//	tenants:
//	  deny: ["evil-*"]             # nothing is done for them
//	rules:
//	  - agents: ["agent_pay", "bank-*"]
//	    only_from: ["user:alice"]  # nobody else may ask them
//	  - agents: ["bank-*"]
//	    skills: ["transfer"]
//	    confirm: true              # each of these needs the user's yes
//	  - agents: ["mcp_fs"]
//	    confirm: false             # these do not, though the agent's card asks for one
//	  - agents: ["shell"]
//	    from: ["agent_*", "user:guest-*"]
//	    allow: false               # these may not ask it
//	  - agents: ["agent_pay"]
//	    at_once: 2                 # tasks under way with it, of all conversations together
//	    per_turn: 3                # tasks that one turn may give it, with all that agents ask for in the course of it
//	  - agents: ["watcher"]
//	    requests_per_minute: 120   # so often it may ask for something of itself, a third of that at once; else 30
//	  - agents: ["bank-*"]
//	    retry:                     # of what they were given and did not do
//	      others: false            # no other agent gets it
//	      attempts: 2              # it is tried at most twice in all; 1: never again
//
// What no rule speaks of is allowed. All rules that match apply, in any order: one that denies wins over all others, an asker has
// to be in every only_from, and of several limits the lowest holds. So a rule takes something away, or it is an error: allow: true
// says nothing that is not so already. There are two exceptions. The lowest requests_per_minute of a rule holds instead of what holds without
// one, and may be more. And confirm: false does without the yes that an agent's card asks for, unless another rule has confirm: true. What an agent asks for while it works on a task in the same conversation is part of that task's turn, and is
// bounded with it.
//
// Without any rule, an agent that has more to do than it can take is given its tasks in turn among those who ask for them: who has more
// than four of them open waits with the others, and not before them.
//
// Work that an agent did not do is tried again: by the same agent where its card allows that, then by others with the same skill,
// [MaxAttempts] times in all. A rule about any agent that the work was given to can end that earlier. What waited for an agent until its
// deadline, and was never handed to it, is no attempt; others get it unless others is false.
//
// A glob is as [path.Match] has it, but * stands for / too. agents are ids; skills are ids of skills, or their names where they
// have no id; askers are "user" or "user:NAME" for people, and the ids of agents, which ask for whomever they work for. A rule
// with skills goes by what the agent calls them on its own card: to be sure, leave skills out.
package policy

import "slices"

// Policy is a set of rules. It never changes, and is safe for concurrent use. A nil Policy allows everything.
type Policy struct {
	denied globs // tenants
	rules  []*rule
	memo   memo
}

// rule is one of the file.
type rule struct {
	agents, skills, from, only globs
	deny, confirm, waive       bool
	atOnce, perTurn            int  // 0: no limit
	requests                   int  // a minute, by its agents; 0: not said
	alone                      bool // what its agents did not do is given to no others
	attempts                   int  // 0: no limit
}

// Rules returns how many rules p has.
func (p *Policy) Rules() int {
	if p == nil {
		return 0
	}
	return len(p.rules)
}

// DeniesTenant reports whether nothing is to be done for a tenant.
func (p *Policy) DeniesTenant(tenant string) bool {
	return p != nil && p.denied.match(tenant)
}

// Any reports whether there is a rule about an agent. When there is none it may be asked by everybody for everything.
func (p *Policy) Any(agent string) bool { return len(p.about(agent)) > 0 }

// Allows reports whether from may ask an agent for one of its skills. With no skill it reports whether from may ask the agent at
// all: rules about skills do not count then.
func (p *Policy) Allows(from, agent, skill string) bool {
	return !slices.ContainsFunc(p.about(agent), func(r *rule) bool {
		return r.forSkill(skill) && (r.deny && r.isFrom(from) || len(r.only) > 0 && !r.only.match(from))
	})
}

// Confirms reports whether the user has to say yes before from's request is given to an agent for one of its skills. With no
// skill, rules about skills do not count.
func (p *Policy) Confirms(from, agent, skill string) bool {
	return slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.confirm && r.forSkill(skill) && r.isFrom(from) })
}

// Waives reports whether the user's yes is not needed, for which the card of an agent asks before from's request is given to it for one of
// its skills. With no skill, rules about skills do not count.
func (p *Policy) Waives(from, agent, skill string) bool {
	for _, r := range p.about(agent) {
		if r.waive && r.forSkill(skill) && r.isFrom(from) {
			return true
		}
	}
	return false
}

// AtOnce returns how many tasks may be under way with an agent, of all conversations together; 0 is any number.
func (p *Policy) AtOnce(agent string) int {
	return p.least(agent, func(r *rule) int { return r.atOnce })
}

// PerTurn returns how many tasks one turn, and what descends from it, may give to an agent; 0 is any number.
func (p *Policy) PerTurn(agent string) int {
	return p.least(agent, func(r *rule) int { return r.perTurn })
}

// Requests returns how often in a minute an agent may ask for something that no task of its own leads to; 0: no rule says so.
func (p *Policy) Requests(agent string) int {
	return p.least(agent, func(r *rule) int { return r.requests })
}

// Others reports whether what from asked an agent for, and the agent did not do, may be given to another agent. With no skill, rules
// about skills do not count.
func (p *Policy) Others(from, agent, skill string) bool {
	return !slices.ContainsFunc(p.about(agent), func(r *rule) bool { return r.alone && r.forSkill(skill) && r.isFrom(from) })
}

// Attempts returns how often what from asked an agent for is tried in all, from 1 to [MaxAttempts]. With no skill, rules about
// skills do not count.
func (p *Policy) Attempts(from, agent, skill string) int {
	most := MaxAttempts
	for _, r := range p.about(agent) {
		if r.attempts > 0 && r.forSkill(skill) && r.isFrom(from) {
			most = min(most, r.attempts)
		}
	}
	return most
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

// about returns the rules about an agent. They are looked for once: a decision asks for each agent several times.
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
