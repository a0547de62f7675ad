package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// ask calls the decider once.
func (d *decision) ask(ctx context.Context) (*llm.Decision, error) {
	t, err := d.fitting()
	if err != nil {
		return nil, err
	}
	text := &draft{m: d.m, ctx: ctx, topic: transport.Live(d.conv.Tenant, d.conv.ContextID), turn: d.turn}
	decided, err := within(ctx, d, func() (*llm.Decision, error) {
		dec, err := d.m.cfg.Decider.Decide(ctx, t, text.write)
		if err == nil && dec == nil {
			err = fmt.Errorf("%w: none", llm.ErrInvalidDecision)
		}
		return dec, err
	}, func(dec *llm.Decision) llm.Usage { return dec.Usage })
	text.end()
	if d.entry.Measured.FirstText.IsZero() {
		d.entry.Measured.FirstText = text.first
	}
	d.m.decisions.Add(1)
	if err != nil {
		d.pay(llm.UsageOf(err))
		return nil, err
	}
	if decided, err = asLogged(decided); err != nil {
		return decided, err
	}
	for i := range decided.Delegations { // for deciders that do not call Veto themselves
		if why := d.vetoed(decided.Delegations[i].Agent, decided.Delegations[i].Skill); why != "" {
			return decided, conversation.Failure("Nothing was done: " + prompt.Clean(decided.Delegations[i].Agent, maxAsked) + " " + why + ".")
		}
		if id := a2a.TaskID(decided.Delegations[i].ID); d.foreign(t, id) {
			return decided, conversation.Failure("Nothing was done: the reply that the task " + string(id) + " waits for is not this request's to give.")
		}
	}
	return decided, llm.Check(t, decided)
}

// see returns what the decider is shown now: the conversation with the summaries made so far. It returns an error when the budget is used up.
func (d *decision) see() (*llm.Turn, error) {
	t := d.conv.View(d.turn, d.entry.Time)
	t.Last, t.MaxParallel = d.turn.Decisions+1 >= conversation.MaxSteps, conversation.MaxParallel
	d.restrict(t)
	summary := d.entry.Summary
	if summary != nil {
		t.History = t.History[d.summarised():]
		t.Omitted += d.entry.Omitted
		if summary.Text != "" {
			t.Summary = summary.Text
		}
	}
	d.attach(t)
	d.offer(t, summary != nil)
	d.seen = t
	return t, d.allow(t)
}

// fitting returns what the decider was just shown and found to fit, or else what see does.
func (d *decision) fitting() (*llm.Turn, error) {
	t := d.fits
	if d.fits = nil; t == nil {
		return d.see()
	}
	return t, d.allow(t)
}

// allow sets the budget of t. It returns an error when it is used up.
func (d *decision) allow(t *llm.Turn) error {
	var why string
	if t.Budget, why = d.accounts.Allowance(d.paid); why != "" {
		d.entry.Measured.Exhausted = d.accounts.Tightest(d.paid)
		return conversation.Failure(why)
	}
	return nil
}

// attach adds to t the keys of the files that tasks can be given, and a function that opens them. The function reads the files as they are now, even if
// the conversation changes in the meantime.
func (d *decision) attach(t *llm.Turn) {
	files := d.conv.Files(d.turn, d.summarised())
	if len(files) == 0 {
		return
	}
	t.Available = conversation.Keys(files)
	keeper, _ := d.m.cfg.Transport.(transport.Files)
	t.Open = func(ctx context.Context, key string, limit int64) ([]byte, error) {
		i := slices.IndexFunc(files, func(p *a2a.Part) bool { return conversation.FileKey(p) == key })
		if i < 0 {
			return nil, transport.ErrFileGone
		}
		return transport.ReadPart(ctx, keeper, t.Tenant, files[i], limit)
	}
}

// offer adds to t the agents that the turn can give work to.
func (d *decision) offer(t *llm.Turn, anew bool) {
	t.Agents, t.Unavailable = d.agents, d.unavailable
	var from *catalog.Candidates
	if index := d.m.cfg.Router; index != nil {
		from = d.m.catalog.Candidates(index, d.agents, d.unavailable, d.m.cfg.Shortlist)
		if old := d.candidates; old != nil && old.Are(d.agents, d.unavailable) {
			from = old
		}
		d.candidates = from
	}
	began := time.Now()
	d.roster, d.shortlist = catalog.Offer(d.conv, t, d.turn, from, d.m.catalog.Trim(d.visible()), anew)
	if d.entry.Measured.Shown = len(t.Agents); d.shortlist != nil {
		d.entry.Measured.Routing += time.Since(began)
	}
}

// visible returns the agents of a full list: those that can be given work, those that are unavailable, and those that have asked in this chain, which
// other turns can ask. It returns nil for too many.
func (d *decision) visible() []prompt.Agent {
	if len(d.all) == len(d.agents) || len(d.agents) > catalog.MaxListed {
		return d.all
	}
	shown := slices.Clone(d.agents)
	add := func(id string) {
		if _, ok := catalog.Find(d.agents, id); ok {
			return
		}
		if a, ok := catalog.Find(d.all, id); ok {
			shown = append(shown, a)
		}
	}
	for i := range d.unavailable {
		add(d.unavailable[i].ID)
	}
	if conversation.IsAgent(d.turn.From) {
		add(d.turn.From)
		for _, id := range d.turn.Ancestors {
			add(id)
		}
	}
	slices.SortFunc(shown, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(shown, func(a, b prompt.Agent) bool { return a.ID == b.ID })
}

// maxSearch bounds the words of a search that the log records, in characters.
const maxSearch = 200

// asLogged returns d as it will be read from the log, so that the fold is the same before and after a restart. On an error it returns only the cost
// of d.
func asLogged(d *llm.Decision) (*llm.Decision, error) {
	usage := conversation.Credible(d.Usage)
	failed := func(err error) (*llm.Decision, error) {
		return &llm.Decision{Usage: usage}, fmt.Errorf("%w: %w", llm.ErrInvalidDecision, err)
	}
	logged := sameWhenLogged(d)
	if logged == nil {
		plain := *d
		plain.Usage = usage
		b, err := json.Marshal(&plain)
		if err != nil {
			return failed(err)
		}
		logged = &llm.Decision{}
		if err := json.Unmarshal(b, logged); err != nil {
			return failed(err)
		}
	}
	logged.Usage = usage
	logged.Searches = logged.Searches[:min(prompt.MaxSearches, len(logged.Searches))]
	for i := range logged.Searches {
		logged.Searches[i] = prompt.Clean(logged.Searches[i], maxSearch)
	}
	logged.Reads = logged.Reads[:min(prompt.MaxReads, len(logged.Reads))]
	for i := range logged.Reads {
		r := &logged.Reads[i]
		r.Key, r.Find = prompt.Clean(r.Key, maxSearch), prompt.Clean(r.Find, maxSearch)
	}
	for _, del := range logged.Delegations {
		if len(del.Input) == 0 {
			continue
		}
		var input any
		if err := json.Unmarshal(del.Input, &input); err != nil { // invalid JSON, which the agent could not read either
			return failed(fmt.Errorf("input for %s: %w", del.Agent, err))
		}
	}
	return logged, nil
}

// sameWhenLogged returns a copy of d as an encoding as JSON and back would produce it, or nil when that has to be done to find out. Most decisions
// consist of words and names, which do not change.
func sameWhenLogged(d *llm.Decision) *llm.Decision {
	ok := valid(string(d.Kind), d.Say, d.Reason, d.Model) && valid(d.Searches...)
	for i := range d.Delegations {
		w := &d.Delegations[i]
		ok = ok && len(w.Input) == 0 && valid(w.ID, w.Agent, w.Skill, w.Task) && valid(w.DependsOn...) && valid(w.Files...)
	}
	for _, r := range d.Reads {
		ok = ok && valid(r.Key, r.Find)
	}
	if !ok {
		return nil
	}
	same := *d
	same.Searches, same.Reads, same.Delegations = filled(d.Searches), filled(d.Reads), filled(d.Delegations)
	for i := range same.Delegations {
		w := &same.Delegations[i]
		w.Input, w.DependsOn, w.Files = nil, filled(w.DependsOn), slices.Clone(w.Files) // no files differ from unspecified files
	}
	return &same
}

// valid reports whether all texts are valid UTF-8.
func valid(all ...string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !utf8.ValidString(s) })
}

// filled returns a copy of s, or nil when it is empty.
func filled[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}
