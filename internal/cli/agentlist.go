package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	plainWidth = 100 // columns of a table that is not on a terminal
	plainName  = 40  // of them for a name, before it makes the table wider
	screenful  = 100 // rows of a table on a terminal unless --limit says otherwise
	noLimit    = math.MinInt
)

// listFlags are the flags that choose agents, and how many.
type listFlags struct {
	query  registry.Query
	states []string
	limit  int
}

func (l *listFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.query.Ability, "ability", "", "agents with this skill, by its `ID` or name; the best comes first")
	f.StringSliceVar(&l.query.Tags, "tag", nil, "agents with this `TAG`, or with a label as KEY=VALUE; with all of them when given again")
	f.StringVar(&l.query.Text, "text", "", "agents that say all of these `WORDS` of themselves")
	f.StringVar(&l.query.Version, "version", "", "agents with a version in this `RANGE`, such as '>=1.2.0 <2.0.0'")
	f.StringSliceVar(&l.states, "state", nil, "agents in this `STATE`: active (or ready), draining, registered, unknown or refused")
	f.StringVar(&l.query.Owner, "owner", "", "agents of this `TEAM`")
	addLimit(f, &l.limit)
}

// addLimit adds --limit; its default depends on where the table goes.
func addLimit(f *pflag.FlagSet, limit *int) {
	f.IntVar(limit, "limit", noLimit, fmt.Sprintf("how many at most; 0 is all (default %d on a terminal, else all)", screenful))
	f.Lookup("limit").DefValue = "0" // a default that is not shown
}

// filter returns what the flags ask for.
func (l *listFlags) filter() (registry.Query, error) {
	q := l.query
	for _, s := range l.states {
		q.States = append(q.States, registry.State(s))
	}
	if err := q.Validate(); err != nil {
		return q, usageError{err}
	}
	return q, checkLimit(l.limit)
}

func checkLimit(limit int) error {
	if limit < 0 && limit != noLimit {
		return usagef("--limit %d: it must be at least 0, which is no limit", limit)
	}
	return nil
}

func (e *env) listAgents(b *backend, q registry.Query, limit int, asJSON bool) error {
	s := b.registry.Snapshot()
	records, err := s.Find(q)
	if err != nil {
		return err
	}
	offers := registry.Offers(records, q.Ability)
	for i := range offers { // as many, in their own order
		records[i] = offers[i].Record
	}
	if len(records) == 0 {
		e.sayNone(s.Agents())
	}
	shown := records[:e.atMost(limit, len(records), asJSON)]
	if asJSON {
		return writeJSON(e, recordsJSON(shown, newLookalikes(s.Agents())))
	}
	if len(shown) == 0 {
		return nil
	}
	header := []string{"AGENT", "STATE", "INSTANCES", "SEEN", "VERSION", "DESCRIPTION"}
	if len(offers) > 0 {
		header = slices.Insert(header, 5, "CONFIDENCE")
	}
	now, alike, marks := time.Now(), newLookalikes(s.Agents()), map[int][]string{}
	rows := [][]string{header}
	for i, r := range shown {
		row := []string{r.ID, string(r.State), fmt.Sprint(len(r.Instances)), r.LastSeenText(now), r.Version, r.Card.Description}
		if len(offers) > 0 {
			row = slices.Insert(row, 5, confidenceText(offers[i].Spec.Confidence))
			row[6] = cmp.Or(offers[i].Skill.Description, r.Card.Description)
		}
		if r.Refused != "" {
			row[len(row)-1] = r.Refused
		}
		if mark := alike.mark(r); mark != "" {
			marks[len(rows)] = []string{mark}
			row[len(row)-1] = marked(mark, row[len(row)-1])
		}
		rows = append(rows, row)
	}
	return e.printRows(rows, marks, len(records)-len(shown))
}

// sayNone says that nobody fits, of all that are known: those that are online, and those that are listed also while they are not.
func (e *env) sayNone(known []*registry.Record) {
	online := 0
	for _, r := range known {
		if len(r.Instances) > 0 {
			online++
		}
	}
	switch away := len(known) - online; {
	case len(known) == 0:
		fmt.Fprintln(e.stderr, "no agent is online: start one with `cortex agent echo`")
	case away == 0:
		fmt.Fprintf(e.stderr, "no agent fits, of %d that are online: `cortex agents` lists them\n", online)
	default:
		fmt.Fprintf(e.stderr, "no agent fits, of %d that are online and %d that are not: `cortex agents` lists them\n", online, away)
	}
}

func (e *env) listAbilities(b *backend, limit int, asJSON bool) error {
	abilities := b.registry.Snapshot().Abilities()
	if len(abilities) == 0 {
		fmt.Fprintln(e.stderr, "no agent that is online has a skill: `cortex agents` lists the agents")
	}
	shown := abilities[:e.atMost(limit, len(abilities), asJSON)]
	if asJSON {
		return writeJSON(e, abilitiesJSON(shown))
	}
	if len(shown) == 0 {
		return nil
	}
	alike := newLookalikes(b.registry.Snapshot().Agents())
	rows, marks := [][]string{{"ABILITY", "AGENTS", "OFFERED BY", "DESCRIPTION"}}, map[int][]string{}
	for _, a := range shown {
		var by []string
		for _, o := range a.Offers[:min(len(a.Offers), 10)] {
			named := alike.Named(o.Record.ID)
			by = append(by, named)
			if named != o.Record.ID {
				marks[len(rows)] = append(marks[len(rows)], prompt.Clean(named, maxMark))
			}
		}
		best := a.Offers[0].Skill
		rows = append(rows, []string{
			a.ID, fmt.Sprint(len(a.Offers)), prompt.Clean(strings.Join(by, ", "), 80), cmp.Or(best.Description, best.Name),
		})
	}
	return e.printRows(rows, marks, len(abilities)-len(shown))
}

// atMost returns how many of n are shown.
func (e *env) atMost(limit, n int, asJSON bool) int {
	switch {
	case limit > 0:
		return min(limit, n)
	case limit == noLimit && !asJSON && isTerminal(e.stdout):
		return min(screenful, n)
	}
	return n
}

// printRows prints a table that keeps the width of a terminal, and how many rows are missing from it. Cells may hold anybody's text; the
// marks of a row are shown whole.
func (e *env) printRows(rows [][]string, marks map[int][]string, missing int) error {
	width := screenWidth(e.stdout)
	first := width / 2
	if width == 0 { // where nobody looks, the name is what the next command takes
		width, first = plainWidth, transport.MaxID
	}
	clean, widest := make([][]string, len(rows)), 0
	for i, row := range rows {
		clean[i] = cleanRow(row, width)
		widest = max(widest, uniseg.StringWidth(clean[i][0]))
	}
	if first == transport.MaxID { // a long one takes no room from what is said of others
		width += max(0, widest-plainName)
	}
	if err := writeColumns(e.stdout, "", withMarks(fit(clean, width, first), marks, width)); err != nil {
		return err
	}
	if missing > 0 && isTerminal(e.stdout) {
		printText(e.stdout, "… and %d more: use --limit 0 or a filter", missing)
	}
	return nil
}
