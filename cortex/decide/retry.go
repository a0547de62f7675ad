package decide

import (
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of retries.
const (
	confidenceUnset = 0.5 // for agents that state no confidence
)

// retries returns the agent for the next attempt of each task that the entry's cause ends without a result and that is tried again.
func (m *Maker) retries(conv *conversation.Conversation, entry *conversation.Entry) map[a2a.TaskID]conversation.Retry {
	due := conv.Lapsing(entry)
	if len(due) == 0 {
		return nil
	}
	turn, p := conv.Turn(entry.Turn), m.policy()
	if turn == nil || !turn.Open() || p.DeniesTenant(conv.Tenant) {
		return nil
	}
	all := m.cfg.Agents(conv.Tenant)
	d := &decision{m: m, conv: conv, turn: turn, entry: entry, policy: p, all: all, agents: all}
	var retries map[a2a.TaskID]conversation.Retry
	given := map[string]int{}
	for _, t := range due {
		r, ok := d.retry(t, due, given)
		if !ok {
			continue
		}
		if r.Why = prompt.Clean(entry.Missing(t), conversation.MaxWhy); !t.Gone {
			if res, ok := conversation.ResultOf(entry.Cause); ok {
				r.Why = prompt.Clean("it failed: "+res.Text, conversation.MaxWhy)
			}
		}
		if retries == nil {
			retries = map[a2a.TaskID]conversation.Retry{}
		}
		retries[t.ID] = r
		given[r.Agent]++
	}
	return retries
}

// retry returns the agent for the next attempt of t. due are the tasks that end with t, whose agents are excluded; given is how many tasks the entry
// has given to each agent so far.
func (d *decision) retry(t *conversation.Task, due []*conversation.Task, given map[string]int) (conversation.Retry, bool) {
	waited := d.entry.HasWaited(t)
	most, others := policy.MaxAttempts, t.Skill != "" && !t.Continued && !d.turn.Confirms(t.ID) && (waited || !t.Terms.Once)
	had, all := 0, 0 // attempts of its present agent, and of all agents
	look := func(agent string, waited bool) {
		if agent == t.Agent {
			had++
		}
		others = others && d.policy.Others(d.turn.From, agent, t.Skill) // a rule about any of these agents can forbid it
		if waited {
			return
		}
		all++
		most = min(most, d.policy.Attempts(d.turn.From, agent, t.Skill))
	}
	look(t.Agent, waited)
	for _, a := range t.Tried {
		look(a.Agent, a.Waited)
	}
	if all >= most || t.Attempt >= policy.MaxAttempts {
		return conversation.Retry{}, false
	}
	again := had <= t.Terms.Retries && d.mayGoOn(t)
	if again && !waited {
		return conversation.Retry{Agent: t.Agent, Terms: t.Terms}, true
	}
	if others {
		if a := d.substitute(t, due, given); a != nil {
			return conversation.Retry{Agent: a.ID, Terms: d.termsOf(a, d.delegationOf(t, a.ID))}, true
		}
	}
	return conversation.Retry{Agent: t.Agent, Terms: t.Terms}, again
}

// mayGoOn reports whether t's agent is present and may still be asked.
func (d *decision) mayGoOn(t *conversation.Task) bool {
	_, there := catalog.Find(d.all, t.Agent)
	return there && d.veto(t.Agent, t.Skill) == "" && (!d.confirms(t.Agent, t.Skill) || d.turn.Confirms(t.ID))
}

// substitute returns the best agent that can do t instead of its present agent and has room for it, and counts t for it; nil when there is none.
func (d *decision) substitute(t *conversation.Task, due []*conversation.Task, given map[string]int) *prompt.Agent {
	best := d.best(d.all, t.Skill, 1, func(a *prompt.Agent) bool {
		if !a.Seen || a.ID == t.Agent || t.TriedBy(a.ID) != nil || slices.ContainsFunc(due, func(t *conversation.Task) bool { return t.Agent == a.ID }) {
			return false
		}
		cycle := conversation.IsAgent(d.turn.From) && (a.ID == d.turn.From || slices.Contains(d.turn.Ancestors, a.ID))
		return !cycle && d.busy(a.ID, 1+given[a.ID]) == "" && d.permits(a.ID, t.Skill) && !d.full(a.ID)
	}, func(a *prompt.Agent) bool {
		return d.does(a, d.delegationOf(t, a.ID)) && len(d.count(t, a.ID)) == 0 // it may have another schema, or no room
	})
	if len(best) == 0 {
		return nil
	}
	return best[0]
}

// delegationOf returns the delegation of t to an agent.
func (d *decision) delegationOf(t *conversation.Task, agent string) *llm.Delegation {
	return &llm.Delegation{ID: string(t.ID), Agent: agent, Skill: t.Skill, Task: t.Text, Input: t.Input}
}

// full reports whether an agent has as many tasks as a rule lets it have.
func (d *decision) full(agent string) bool {
	if d.policy == nil {
		return false
	}
	most := d.policy.AtOnce(agent)
	return most > 0 && d.m.taskLimits.under(agent, d.m.cfg.Now()) >= most
}

// count counts t for another agent, or returns why that exceeds the agent's limit.
func (d *decision) count(t *conversation.Task, agent string) map[string]string {
	if d.policy == nil {
		return nil
	}
	now := d.m.cfg.Now()
	until := now.Add(d.m.cfg.TaskTimeout + countMargin)
	k := d.conv.Key()
	return d.m.taskLimits.admit(k, d.conv.Requester(d.turn), map[a2a.TaskID]string{t.ID: agent}, until, now, d.policy.AtOnce)
}
