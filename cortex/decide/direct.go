package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// directModel is the model named in the decision about a message that names its agent.
const directModel = "direct"

// direct decides about a turn whose message names its agent: the agent gets the message, and its result is the answer.
func (d *decision) direct(ctx context.Context) {
	decided, err := d.address(ctx)
	if err != nil {
		d.entry.Failure = d.explain(err)
		return
	}
	decided.Model = directModel
	d.entry.Decision, d.entry.Terms, d.entry.Consent = decided, d.terms(decided), d.consent(decided)
	d.m.log.InfoContext(ctx, "decided by the message", "context_id", d.conv.ContextID, "turn", d.turn.ID, "kind", decided.Kind, "agents", delegates(decided))
}

// address returns the decision, or a [conversation.Failure] when there is none.
func (d *decision) address(ctx context.Context) (*llm.Decision, error) {
	if d.turn.Decisions > 0 {
		steps := d.conv.View(d.turn, d.entry.Time).Steps
		return llm.Report(steps[len(steps)-1].Tasks), nil
	}
	to := d.turn.Direct
	a, ok := catalog.Find(d.agents, to.Agent)
	if !ok {
		return nil, conversation.Failure(d.missing(to.Agent))
	}
	del := llm.Delegation{ID: "1", Agent: a.ID, Skill: to.Skill, Task: to.Text, Input: to.Input}
	if to.Text == "" {
		del.Task = "@" + a.ID
	}
	t := d.conv.View(d.turn, d.entry.Time)
	d.restrict(t)
	t.Agents, t.Veto = d.agents, d.veto
	if w := waitingWith(t, &del); w != nil && to.Text != "" {
		del.ID, del.Skill = string(w.ID), w.Skill
	} else if raw := agentcard.SpecOf(a.Card).Abilities[del.SkillOf(a.Card)].InputSchema; len(del.Input) == 0 && len(raw) > 0 {
		del.Input, _ = llm.InputFor(raw, del.Task) // an error shows below as missing input
	}
	if err := llm.CheckDelegation(t, &del); errors.Is(err, llm.ErrNoSkill) {
		example := prompt.Clean(agentcard.SkillID(&a.Card.Skills[0]), 64)
		return nil, conversation.Failure(fmt.Sprintf("Nothing was done: %v. Name it behind the agent, as in @%s/%s.", err, a.ID, example))
	} else if err != nil {
		return nil, conversation.Failure("Nothing was done: " + err.Error() + ".")
	}
	if to.Text == "" && len(to.Input) == 0 && llm.WantsWords(a.Card, del.SkillOf(a.Card)) {
		return llm.AskWhat(a.ID), nil
	}
	if err := d.affords(ctx); err != nil {
		return nil, err
	}
	d.nameSkill(&del)
	decided, err := asLogged(&llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{del}, Reason: "the message names " + a.ID})
	if err != nil {
		return nil, err
	}
	full, say, err := d.limit(ctx, decided)
	if err != nil {
		return nil, err
	}
	if say != "" {
		return asLogged(&llm.Decision{Kind: llm.KindRespond, Say: say, Reason: "a rule has the first result answer a repeated call"})
	}
	if len(full) > 0 {
		return nil, conversation.Failure("Nothing was done, since the agent has no room for it now (" + reasons(full) + "). Ask again in a while.")
	}
	return decided, nil
}

// waitingWith returns the last task in which the agent has a question for the sender, if del can be the reply to it.
func waitingWith(t *llm.Turn, del *llm.Delegation) *prompt.Task {
	for i := len(t.Waiting) - 1; i >= 0; i-- {
		w := &t.Waiting[i]
		if w.Agent == del.Agent && (del.Skill == "" || del.Skill == w.Skill) && len(del.Input) == 0 {
			return w
		}
	}
	return nil
}

// missing returns why the named agent cannot be given work.
func (d *decision) missing(agent string) string {
	name := fmt.Sprintf("%q", prompt.Clean(agent, 64))
	if i := slices.IndexFunc(d.unavailable, func(u prompt.Unavailable) bool { return u.ID == agent }); i >= 0 {
		return fmt.Sprintf("Nothing was done: %s cannot be given work at the moment: %s.", name, d.unavailable[i].Why)
	}
	if _, there := catalog.Find(d.all, agent); there {
		return fmt.Sprintf("Nothing was done: the request came from %s, or over it, and nobody is asked in the course of their own request.", name)
	}
	if present := d.m.cfg.Present; present != nil && present(agent) && d.admits(&prompt.Agent{ID: agent}) {
		return fmt.Sprintf("Nothing was done: %s takes no work at the moment, as when it is started again. Ask again in a while.", name)
	}
	nearest := llm.Nearest(d.agents, agent)
	if len(nearest) == 0 {
		return fmt.Sprintf("Nothing was done: there is no agent %s, nor any other.", name)
	}
	for i := range nearest {
		nearest[i] = prompt.Clean(nearest[i], 64)
	}
	there := strings.Join(nearest, ", ")
	if more := len(d.agents) - len(nearest); more > 0 {
		there += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("Nothing was done: there is no agent %s; who is there: %s.", name, there)
}
