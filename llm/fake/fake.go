// Package fake is a decider without a model, the default of Cortex before a model is configured. It needs neither network nor key, costs nothing, and
// decides the same for the same turn every time.
//
// It gives a request to the agent that fits best according to the router, and answers itself when none fits; it splits a request for several things.
// "@agent_id …", "agent_id: …" and "ask agent_id to …" go to that agent. The results of the agents become the answer. It has no understanding: a
// request that shares no words with a card finds no agent.
package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Options configures New. The zero value is valid.
type Options struct {
	// WordDelay is the pause between two words of a streamed answer, to simulate a slow model.
	WordDelay time.Duration
}

// Decider is a decider without a model. It is safe for concurrent use.
type Decider struct {
	options      Options
	finder       finder
	vocabularies vocabularies
}

var (
	_ llm.Decider   = (*Decider)(nil)
	_ llm.Computing = (*Decider)(nil)
)

// New returns a Decider. o may be nil.
func New(o *Options) *Decider {
	d := &Decider{}
	if o != nil {
		d.options = *o
	}
	return d
}

// Decide implements [llm.Decider]. It returns no other error than ctx's.
func (d *Decider) Decide(ctx context.Context, t *llm.Turn, stream func(text string)) (*llm.Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	decision := d.decide(t)
	decision.Model = "fake"
	if stream == nil || !decision.Kind.Answers() {
		return decision, nil
	}
	for word := range strings.SplitAfterSeq(decision.Say, " ") {
		if d.options.WordDelay > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(d.options.WordDelay):
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if word != "" {
			stream(word)
		}
	}
	return decision, nil
}

// Computes implements [llm.Computing].
func (d *Decider) Computes() bool { return d.options.WordDelay == 0 }

// understand finds out what is asked of whom: as it stands, behind what was asked before, or with its words as they were meant.
func (m *matcher) understand(t *llm.Turn) []piece {
	if pieces := m.corrected(t); len(pieces) > 0 {
		return pieces
	}
	m.unsure, m.strange = "", nil
	if pieces := m.follow(t); len(pieces) > 0 && m.readable(pieces) {
		return pieces
	}
	text := strings.TrimSpace(t.User)
	if continues(text) {
		return nil // it goes on with a result that is not there: "times 2" is about no time
	}
	if len(t.History) > 0 && len(text) <= maxFollow {
		text, _ = opening(whereThere(text, t.History))
	}
	pieces := m.plan(text)
	if len(pieces) == 0 {
		if meant, ok := m.mended(text); ok {
			m.strange = nil
			pieces = m.plan(meant)
		}
	}
	for i := range pieces {
		m.mendVerb(&pieces[i])
		pieces[i].task = m.echoed(&pieces[i])
		pieces[i].empty = m.bare(&pieces[i], t.Files)
	}
	return pieces
}

func (d *Decider) decide(t *llm.Turn) *llm.Decision {
	switch {
	case len(t.Steps) > 0:
		return d.report(t)
	case t.Last:
		return refuse("No step is left to give this to an agent.\n"+online(t), "last step")
	}
	m := d.newMatcher(t)
	if reply := resume(t, m); reply != nil {
		return reply
	}
	if said := m.alone(t); said != nil {
		return said
	}
	pieces := m.understand(t)
	if missing := m.missing(t, pieces); missing != nil {
		return missing
	}
	if len(pieces) == 0 {
		return m.puzzle(t)
	}
	if most := cmp.Or(max(t.MaxParallel, 0), llm.DefaultMaxParallel); len(pieces) > most {
		return clarify(fmt.Sprintf("These are %d requests at once, and I can hand on %d. Please ask in parts.", len(pieces), most), "too many requests")
	}
	decision := &llm.Decision{Kind: llm.KindDelegate}
	var reasons []string
	for i := range pieces {
		work, instead := m.delegate(t, &pieces[i], freeID(t.Waiting, i+1))
		if instead != nil {
			return instead
		}
		decision.Delegations = append(decision.Delegations, work)
		reasons = append(reasons, pieces[i].reason)
	}
	decision.Reason = strings.Join(reasons, " / ")
	return decision
}

// alone answers what needs no agent; nil for anything else.
func (m *matcher) alone(t *llm.Turn) *llm.Decision {
	if said := courtesy(t.User); said != "" {
		return respond(said, "a courtesy")
	}
	if m.stops(t.User) {
		return respond(howToStop, "asked to stop something")
	}
	if isAbout(t.User) && (len(t.Files) == 0 || !slices.Contains(plainWords(t.User), "this")) { // with files, "this" is one of them
		return introduction(t)
	}
	if said := m.whether(t.User); said != "" {
		return respond(said, "asked whether an agent is online")
	}
	return nil
}

// missing says that an agent is not there that a piece asks for by name; nil when all are.
func (m *matcher) missing(t *llm.Turn, pieces []piece) *llm.Decision {
	i := slices.IndexFunc(pieces, func(p piece) bool { return p.unknown != "" })
	if i < 0 {
		return nil
	}
	asked := pieces[i].unknown
	name := prompt.Clean(asked, 64)
	for _, u := range t.Unavailable {
		if called(u.ID, true) == called(asked, true) {
			return refuse(fmt.Sprintf("%s cannot be given work at the moment: %s.", name, prompt.Clean(u.Why, 200)), "asked for an agent that is busy")
		}
	}
	say := fmt.Sprintf("No agent %q is online.%s", name, m.meant(asked))
	if !listed(t, "No agent ") {
		say += "\n" + online(t)
	}
	return refuse(say, "asked for an agent that is not there")
}

// puzzle answers a request of which no agent can do a part.
func (m *matcher) puzzle(t *llm.Turn) *llm.Decision {
	switch {
	case len(t.Agents) == 0:
		return refuse(online(t), "no agent is online")
	case m.unsure != "":
		return clarify("I am not sure what is to be done with this. If it is the same as before, say it in full: "+prompt.Clean(m.unsure, 200), "it may go on with what was asked before")
	}
	if said := m.aside(t); said != nil {
		return said
	}
	if m.nearest != "" {
		return refuse(m.near(t), m.nearest+" cannot read this")
	}
	return refuse(puzzled(t), "no agent fits well enough; "+m.best(t.User).reason)
}

// delegate gives a piece to its agent, or returns what is decided instead.
func (m *matcher) delegate(t *llm.Turn, p *piece, id string) (work llm.Delegation, instead *llm.Decision) {
	if len(p.task) > llm.MaxTask {
		return work, tooLong(len(p.task))
	}
	agent := &m.agents[p.agent]
	if p.named && !hasSkill(agent, p.skill) {
		return work, refuse(fmt.Sprintf("%s has no skill %q; it has %s.", agent.ID, prompt.Clean(p.skill, 64), skillsOf(agent)), "asked for a skill that is not there")
	}
	if p.skill == "" {
		p.skill = m.skill(agent, p.about)
	}
	if p.empty {
		return work, clarify(fmt.Sprintf("%s needs a text for this. Say it behind a colon: %s: …", agent.ID, strings.TrimRight(prompt.Clean(p.task, 100), "?!. ")), agent.ID+" gets a text, and there is none")
	}
	if p.alone && llm.WantsWords(agent.Card, p.skill) {
		return work, llm.AskWhat(agent.ID)
	}
	if !p.named && !strings.HasPrefix(p.task, "{") {
		p.skill = m.nearestSkill(agent, p.skill, p.about)
	}
	if t.Veto != nil {
		if why := t.Veto(agent.ID, p.skill); why != "" {
			return work, refuse(fmt.Sprintf("%s cannot be asked for this: %s.", agent.ID, prompt.Clean(why, 200)), "not allowed")
		}
	}
	input, hint := m.handOver(agent, p, p.skill)
	if hint != "" {
		return work, refuse(hint, "the skill takes structured input")
	}
	return llm.Delegation{ID: id, Agent: agent.ID, Skill: p.skill, Task: p.task, Input: input}, nil
}

// report answers with the results, and with the parts of the request that nobody was asked for.
func (d *Decider) report(t *llm.Turn) *llm.Decision {
	tasks := t.Steps[len(t.Steps)-1].Tasks
	decision := llm.Report(tasks)
	if len(t.User) > maxRead || !decision.Kind.Fulfils() || len(tasks) == 1 && isWhole(t.User, tasks[0].Text) {
		return decision
	}
	m := d.newMatcher(t)
	if len(m.split(t.User, false)) < 2 {
		return decision
	}
	pieces := m.understand(t)
	given := func(p piece) bool {
		return slices.ContainsFunc(tasks, func(t prompt.Task) bool { return t.Text == p.task })
	}
	if len(m.strange) == 0 || !slices.ContainsFunc(pieces, given) {
		return decision // all is done, or it was a reply to an agent's question
	}
	parts := make([]string, len(m.strange))
	for i, part := range m.strange {
		parts[i] = fmt.Sprintf("%q", prompt.Clean(part, 200))
	}
	decision.Say = fmt.Sprintf("%s\nI did not understand %s.", strings.TrimRight(decision.Say, "\n"), strings.Join(parts, " and "))
	return decision
}

// isWhole reports whether task is all of a request but the address in front of it.
func isWhole(request, task string) bool {
	address, ok := strings.CutSuffix(request, task)
	return ok && strings.HasPrefix(address, "@") && strings.IndexByte(address, ' ') == len(address)-1
}

// resume continues the task that waits for the user's reply, the latest one when there are several. It returns nil when none waits, when its agent is
// gone, and when the user addresses another agent.
func resume(t *llm.Turn, m *matcher) *llm.Decision {
	for i := len(t.Waiting) - 1; i >= 0; i-- {
		w := &t.Waiting[i]
		at := m.find(w.Agent)
		if at < 0 || w.ID == "" {
			continue
		}
		task := t.User
		if a, ok := m.addressed(t.User); ok {
			if a.agent != at || a.alone {
				return nil
			}
			task = a.rest
		}
		if strings.TrimSpace(task) == "" {
			return nil
		}
		if !m.agents[at].Seen && m.worker(t.User) >= 0 {
			return nil // the agent does not run, and this is for another one
		}
		if len(task) > llm.MaxTask {
			return tooLong(len(task))
		}
		return &llm.Decision{
			Kind:        llm.KindDelegate,
			Delegations: []llm.Delegation{{ID: string(w.ID), Agent: w.Agent, Skill: knownSkill(&m.agents[at], w.Skill), Task: task}},
			Reason:      w.Agent + " waits for this reply",
		}
	}
	return nil
}

func tooLong(n int) *llm.Decision {
	return refuse(fmt.Sprintf("This is too long for an agent: %d bytes, at most %d can be handed on.", n, llm.MaxTask), "request too long")
}

func respond(say, reason string) *llm.Decision {
	return &llm.Decision{Kind: llm.KindRespond, Say: say, Reason: reason}
}

func clarify(say, reason string) *llm.Decision {
	return &llm.Decision{Kind: llm.KindClarify, Say: say, Reason: reason}
}

// refuse says why nothing is done: the request was not understood, or nobody can do it.
func refuse(say, reason string) *llm.Decision {
	return &llm.Decision{Kind: llm.KindRefuse, Say: say, Reason: reason}
}

// freeID returns n as an id that no waiting task has.
func freeID(waiting []prompt.Task, n int) string {
	id := fmt.Sprint(n)
	for slices.ContainsFunc(waiting, func(t prompt.Task) bool { return string(t.ID) == id }) {
		id += "a"
	}
	return id
}

// knownSkill returns skill if the agent's card still has it, otherwise "".
func knownSkill(a *prompt.Agent, skill string) string {
	if a.Card != nil && len(a.Card.Skills) > 0 && hasSkill(a, skill) {
		return skill
	}
	return ""
}

func skillID(s *a2a.AgentSkill) string {
	return cmp.Or(s.ID, s.Name)
}
