package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// notServed is the answer to a tenant that the policy denies.
const notServed = "This tenant is not served."

// maxFull bounds how often a decision is made again because it was above the in-flight limit of an agent.
const maxFull = 2

// policy returns the rules in force; nil allows everything.
func (m *Maker) policy() *policy.Policy {
	if m.cfg.Policy == nil {
		return nil
	}
	return m.cfg.Policy()
}

// permit reduces the agents to those that the turn may give work to. An agent that the policy forbids is treated as if it did not exist: no list
// shows it, and no search finds it. An agent that is allowed but busy is listed as unavailable, with the reason.
func (d *decision) permit() {
	d.policy = d.m.policy()
	if d.policy == nil && !conversation.IsAgent(d.turn.From) { // there may be thousands of agents
		return
	}
	d.all = keep(d.all, func(a *prompt.Agent) bool { return d.admits(a) })
	asker := conversation.IsAgent(d.turn.From)
	d.agents = keep(d.all, func(a *prompt.Agent) bool {
		if asker && (a.ID == d.turn.From || slices.Contains(d.turn.Ancestors, a.ID)) { // no cycles
			return false
		}
		why := d.busy(a.ID, 0)
		if why != "" {
			d.unavailable = append(d.unavailable, prompt.Unavailable{ID: a.ID, Why: why})
		}
		return why == ""
	})
}

// keep returns the agents for which f is true. It copies only when some are removed.
func keep(all []prompt.Agent, f func(*prompt.Agent) bool) []prompt.Agent {
	for i := range all {
		if f(&all[i]) {
			continue
		}
		kept := append(make([]prompt.Agent, 0, len(all)-1), all[:i]...)
		for j := i + 1; j < len(all); j++ {
			if f(&all[j]) {
				kept = append(kept, all[j])
			}
		}
		return kept
	}
	return all
}

// admits reports whether the turn may ask an agent for anything.
func (d *decision) admits(a *prompt.Agent) bool {
	if !d.policy.Any(a.ID) {
		return true
	}
	if a.Card == nil || len(a.Card.Skills) == 0 {
		return d.forbids(a.ID, "") == ""
	}
	return slices.ContainsFunc(a.Card.Skills, func(s a2a.AgentSkill) bool { return d.forbids(a.ID, agentcard.SkillID(&s)) == "" })
}

// restrict applies the rules to t.
func (d *decision) restrict(t *llm.Turn) {
	t.Veto = d.vetoed
	if d.policy == nil {
		return
	}
	t.Waiting = slices.DeleteFunc(t.Waiting, func(w prompt.Task) bool {
		_, there := catalog.Find(d.all, w.Agent)
		return !there && d.policy.Any(w.Agent)
	})
}

// withhold returns the tasks that wait for the one whose result e is and must not be sent any more, with the reasons: they were decided under earlier
// rules, and are sent without another decision.
func (m *Maker) withhold(conv *conversation.Conversation, e *transport.Event) map[a2a.TaskID]string {
	r, ok := conversation.ResultOf(e)
	done := conv.Tasks[r.TaskID]
	p := m.policy()
	if !ok || done == nil || p == nil || conv.Turn(done.Turn) == nil {
		return nil
	}
	d := &decision{m: m, conv: conv, turn: conv.Turn(done.Turn), policy: p, all: m.cfg.Agents(conv.Tenant)}
	var all map[a2a.TaskID]string
	for _, w := range conv.TasksOf(d.turn) {
		if w.Phase != conversation.Blocked || !slices.Contains(w.DependsOn, done.ID) {
			continue
		}
		why := d.veto(w.Agent, w.Skill)
		if why == "" && d.forbids(w.Agent, w.Skill) != "" { // the agent is gone, so its skills are unknown
			why = "may not be asked"
		}
		switch {
		case p.DeniesTenant(conv.Tenant):
			why = notServed
		case why == "":
			continue
		default:
			why = prompt.Clean(w.Agent, maxAsked) + " " + why
		}
		if all == nil {
			all = map[a2a.TaskID]string{}
		}
		all[w.ID] = why
		m.denied.Agent.Add(1)
	}
	return all
}

// foreign reports whether a task waits for a reply that t may not give, although t may know its id from the history.
func (d *decision) foreign(t *llm.Turn, id a2a.TaskID) bool {
	w := d.conv.Tasks[id]
	return w != nil && w.Phase == conversation.Asking && !slices.ContainsFunc(t.Waiting, func(w prompt.Task) bool { return w.ID == id })
}

// forbids returns why the turn may not ask an agent for a skill, or "".
func (d *decision) forbids(agent, skill string) string {
	switch {
	case !d.policy.Allows(d.turn.From, agent, skill):
		return "it may not be asked for"
	case conversation.IsAgent(d.turn.From) && d.needsConsent(agent, skill):
		return "a person has to agree to, and none asks"
	}
	return ""
}

// vetoed implements [llm.Turn.Veto].
func (d *decision) vetoed(agent, skill string) string {
	why := d.veto(agent, skill)
	if why != "" {
		d.m.denied.Agent.Add(1)
	}
	return why
}

// veto returns why the turn may not give an agent work for a skill, or "". A delegation without a skill may use any of the agent's skills. For an agent that is not present or not visible to
// the requester, veto returns "".
func (d *decision) veto(agent, skill string) string {
	if _, there := catalog.Find(d.all, agent); !there || !d.policy.Any(agent) && !conversation.IsAgent(d.turn.From) {
		return ""
	}
	if skill != "" {
		if why := d.forbids(agent, skill); why != "" {
			return fmt.Sprintf("has a skill %q that %s", prompt.Clean(skill, 64), why)
		}
		return ""
	}
	skills := d.skillsOf(agent)
	for _, skill := range skills {
		if why := d.forbids(agent, skill); why != "" {
			return fmt.Sprintf("has to be asked for a skill by its id, since it has a skill %q that %s", prompt.Clean(skill, 64), why)
		}
	}
	for _, skill := range skills {
		if len(skills) > 1 && d.policy.Distinguishes(d.turn.From, agent, skill) {
			return fmt.Sprintf("has to be asked for a skill by its id, since a rule is about its skill %q", prompt.Clean(skill, 64))
		}
	}
	return ""
}

// nameSkill names the skill of a new delegation whose agent has only one, if a rule is about that: what the log names is not evaded by a card that changes.
func (d *decision) nameSkill(del *llm.Delegation) {
	if skills := d.skillsOf(del.Agent); del.Skill == "" && len(skills) == 1 && d.conv.Tasks[a2a.TaskID(del.ID)] == nil && d.policy.Distinguishes(d.turn.From, del.Agent, skills[0]) {
		del.Skill = skills[0]
	}
}

// confirms reports whether a delegation needs the user's consent.
func (d *decision) confirms(agent, skill string) bool {
	return d.needsConsent(agent, skill) || skill == "" && slices.ContainsFunc(d.skillsOf(agent), func(skill string) bool { return d.needsConsent(agent, skill) })
}

// needsConsent reports whether a skill needs the user's consent: a rule requires it, or the agent's card does and no rule waives that.
func (d *decision) needsConsent(agent, skill string) bool {
	if d.policy.Confirms(d.turn.From, agent, skill) {
		return true
	}
	a, ok := catalog.Find(d.all, agent)
	return ok && agentcard.AbilityOf(a.Card, skill).Confirm && !d.policy.Waives(d.turn.From, agent, skill)
}

func (d *decision) skillsOf(agent string) []string {
	a, ok := catalog.Find(d.all, agent)
	if !ok || a.Card == nil {
		return nil
	}
	var ids []string
	for i := range a.Card.Skills {
		ids = append(ids, agentcard.SkillID(&a.Card.Skills[i]))
	}
	return ids
}

// busy returns why this turn cannot give an agent that many more tasks, or "".
func (d *decision) busy(agent string, more int) string {
	if !d.policy.Any(agent) {
		return ""
	}
	if limit := d.policy.PerTurn(agent); limit > 0 {
		if given := d.conv.Chain(d.turn).PerAgent[agent]; given+max(more, 1) > limit {
			return fmt.Sprintf("this turn gave it %d of %d tasks", given, limit)
		}
	}
	if limit := d.policy.AtOnce(agent); limit > 0 && more == 0 {
		if has := d.m.taskLimits.under(agent, d.entry.Time); has >= limit {
			return underWay(has, limit)
		}
	}
	return ""
}

// admit counts the tasks of a decision against the limits of their agents. It checks tasks that wait for consent without counting them. For each
// agent whose limit would be exceeded it returns the reason; then it counts nothing.
func (d *decision) admit(decided *llm.Decision, sent bool) map[string]string {
	if d.policy == nil || !decided.Kind.Delegates() {
		return nil
	}
	full, given := map[string]string{}, map[string]int{}
	for i := range decided.Delegations {
		given[decided.Delegations[i].Agent]++
	}
	for agent, n := range given {
		if why := d.busy(agent, n); why != "" {
			full[agent] = why
		}
	}
	if len(full) > 0 || !sent {
		return full
	}
	tasks := map[a2a.TaskID]string{}
	ids := d.conv.TaskIDs(d.entry.Seq, d.turn, decided)
	for i := range decided.Delegations {
		tasks[ids[decided.Delegations[i].ID]] = decided.Delegations[i].Agent
	}
	now := d.m.cfg.Now()
	until := now.Add(d.m.cfg.TaskTimeout + countMargin)
	return d.m.taskLimits.admit(d.conv.Key(), d.conv.Requester(d.turn), tasks, until, now, d.policy.AtOnce)
}

// markUnavailable marks agents as unavailable.
func (d *decision) markUnavailable(full map[string]string) {
	d.agents = keep(d.agents, func(a *prompt.Agent) bool {
		why, ok := full[a.ID]
		if ok {
			d.unavailable = append(d.unavailable, prompt.Unavailable{ID: a.ID, Why: why})
		}
		return !ok
	})
	slices.SortFunc(d.unavailable, func(a, b prompt.Unavailable) int { return strings.Compare(a.ID, b.ID) })
}

// reasons lists why agents are at their in-flight limits, sorted by id.
func reasons(full map[string]string) string {
	var all []string
	for agent, why := range full {
		all = append(all, prompt.Clean(agent, maxAsked)+": "+why)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
