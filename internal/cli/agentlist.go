package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/repl"
)

// listFlags are the flags that choose agents, and how many.
type listFlags struct {
	query  registry.Query
	states []string
	limit  limit
}

func (l *listFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.query.Ability, "ability", "", "`ID`: only agents with this skill, by its id or name, the best one first")
	f.StringSliceVar(&l.query.Tags, "tag", nil, "`TAG`: only agents with this tag, or with the label KEY=VALUE; repeat it to require several")
	f.StringVar(&l.query.Text, "text", "", "`WORDS`: only agents whose card has all these words")
	f.StringVar(&l.query.Version, "version", "", "`RANGE`: only agents with a version in this range, such as '>=1.2.0 <2.0.0'")
	f.StringSliceVar(&l.states, "state", nil, "`STATE`: only agents in this state: active (or ready), draining, registered, unknown (not running) or refused")
	f.StringVar(&l.query.Owner, "owner", "", "`TEAM`: only agents of this team")
	l.limit.add(f)
}

// filter returns the query that the flags describe.
func (l *listFlags) filter() (registry.Query, error) {
	q := l.query
	for _, s := range l.states {
		q.States = append(q.States, registry.State(s))
	}
	if err := q.Validate(); err != nil {
		return q, usage.New(err)
	}
	return q, l.limit.check()
}

func (e *env) listAgents(b *backend, q registry.Query, l limit, asJSON bool) error {
	s := b.registry.Snapshot()
	records, err := s.Find(q)
	if err != nil {
		return err
	}
	offers := registry.Offers(records, q.Ability)
	for i := range offers { // the same number, in the order of the offers
		records[i] = offers[i].Record
	}
	if len(records) == 0 {
		e.sayNone(s.Agents())
	}
	shown := records[:min(e.most(l, asJSON), len(records))]
	alike := view.NewLookalikes(s.Agents())
	if asJSON {
		return writeJSON(e, view.RecordsJSON(shown, alike))
	}
	if len(shown) == 0 {
		return nil
	}
	list := agentInfos(shown, alike, time.Now())
	for i := range offers[:min(len(offers), len(shown))] {
		list[i].Confidence = confidenceText(offers[i].Spec.Confidence)
		list[i].Description = cmp.Or(shown[i].Refused, offers[i].Skill.Description, shown[i].Card.Description)
	}
	if err := e.show(repl.AgentTable(list)); err != nil {
		return err
	}
	e.sayMore(len(shown) < len(records))
	return nil
}

// agentInfos converts records to the rows of a list.
func agentInfos(records []*registry.Record, alike *view.Lookalikes, now time.Time) []repl.AgentInfo {
	list := make([]repl.AgentInfo, len(records))
	for i, r := range records {
		instances := fmt.Sprint(len(r.Instances))
		if late := view.LateInstances(r, now); late > 0 && late < len(r.Instances) {
			instances += fmt.Sprintf(", %d silent", late)
		}
		list[i] = repl.AgentInfo{
			ID: r.ID, Description: cmp.Or(r.Refused, r.Card.Description), State: view.AgentState(r, now), LastSeen: view.SeenText(r, now),
			Version: r.Version, Instances: instances, Mark: alike.MarkOf(r),
		}
		for _, s := range r.Card.Skills {
			list[i].Skills = append(list[i].Skills, s.ID)
		}
	}
	return list
}

// sayNone prints that no agent matches, and how many agents are known: online, and offline but listed.
func (e *env) sayNone(known []*registry.Record) {
	online := 0
	for _, r := range known {
		if len(r.Instances) > 0 {
			online++
		}
	}
	switch away := len(known) - online; {
	case len(known) == 0:
		e.say("no agent is online: start one with `cortex agent echo`")
	case away == 0:
		e.say("no agent fits, of %d that are online: `cortex agents` lists them", online)
	default:
		e.say("no agent fits, of %d that are online and %d that are not: `cortex agents` lists them", online, away)
	}
}

func (e *env) listAbilities(b *backend, l limit, asJSON bool) error {
	abilities := b.registry.Snapshot().Abilities()
	if len(abilities) == 0 {
		e.say("no agent that is online has a skill: `cortex agents` lists the agents")
	}
	shown := abilities[:min(e.most(l, asJSON), len(abilities))]
	if asJSON {
		return writeJSON(e, view.AbilitiesJSON(shown))
	}
	alike := view.NewLookalikes(b.registry.Snapshot().Agents())
	t := &table.Table{Columns: []table.Column{
		{Title: "ABILITY", Least: 20}, {Title: "AGENTS"}, {Title: "OFFERED BY", Least: 20}, {Title: "DESCRIPTION", Least: 20, Rank: 1},
	}}
	for _, a := range shown {
		var by, marks []string
		for _, o := range a.Offers[:min(len(a.Offers), 10)] {
			by = append(by, alike.Named(o.Record.ID))
			if by[len(by)-1] != o.Record.ID {
				marks = append(marks, by[len(by)-1])
			}
		}
		best := a.Offers[0].Skill
		t.Row(a.ID, fmt.Sprint(len(a.Offers)), strings.Join(by, ", "), cmp.Or(best.Description, best.Name))
		for _, mark := range marks {
			t.Mark(mark)
		}
	}
	if err := e.show(t); err != nil {
		return err
	}
	e.sayMore(len(shown) < len(abilities))
	return nil
}

// marked puts an agent's warning before a text.
func marked(mark, text string) string {
	if mark == "" || text == "" {
		return cmp.Or(mark, text)
	}
	return mark + " · " + text
}
