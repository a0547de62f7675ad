package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Evaluate has the evaluators of the policy check the result that is the cause of entry: it sets the verdicts, replaces the cause by a redacted copy, and
// rejects what does not pass, also when that cannot be found out. What is no completed work, such as a question or why it failed, is checked by rules only,
// as is what was rejected before: its reason may quote it. Rules come first, so that a model is not shown what they take out.
// A model that judges takes as long as a decision may; before that, files may have to be read. Evaluate returns [ErrWaits] when the result has to wait for
// a place, and an error when ctx ends.
func (m *Maker) Evaluate(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry, place *Place) error {
	if p, ok := entry.Cause.Payload.(*transport.Post); ok {
		return m.evaluatePost(ctx, conv, entry, place, p)
	}
	r, ok := conversation.ResultOf(entry.Cause)
	if !ok || !r.Settles() {
		return nil
	}
	t := conv.Tasks[r.TaskID]
	if t == nil || t.Phase.Over() {
		return nil
	}
	turn := conv.Turn(t.Turn)
	rules, judges := byKind(m.evaluators(t, turn))
	if r.State != a2a.TaskStateCompleted || entry.Rejected != "" {
		judges = nil
	}
	if len(rules)+len(judges) == 0 {
		return nil
	}
	reject := func(why string) {
		entry.Rejected = cmp.Or(entry.Rejected, shorten.Line(why, maxRejected))
	}
	defer func() { entry.Rejected = redacted(rules, entry.Rejected) }()
	if !m.place(conv, turn, entry.Cause, place) {
		return ErrWaits
	}
	c := m.copyOf(ctx, conv.Tenant, entry.Cause, rules)
	texts := c.texts()
	var err error
	entry.Verdicts, err = evaluate.Check(ctx, rules, nil, t.Text, texts)
	place.Leave() // a model may take long
	if c.unread != nil {
		reject(c.unread.Error())
	}
	if err == nil && c.unread == nil && !evaluate.Ended(entry.Verdicts) {
		var judged []evaluate.Verdict
		judged, err = evaluate.Check(ctx, judges, func(ctx context.Context, task, _ string, criteria []string) (float64, string, error) {
			return m.judge(ctx, conv, turn, entry, task, c.shown(texts), criteria)
		}, t.Text, texts)
		entry.Verdicts = append(entry.Verdicts, judged...)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i := range entry.Verdicts {
		entry.Verdicts[i].Advice = shorten.Line(redacted(rules, entry.Verdicts[i].Advice), maxRejected)
	}
	if err != nil {
		reject(err.Error())
	}
	var last evaluate.Verdict // that changed something, or ended it
	for _, v := range entry.Verdicts {
		if !v.Pass {
			last = v
		}
	}
	if last.Action == evaluate.Fail {
		reject(last.Words())
	}
	if changed, err := c.replace(texts, last.Evaluator); err != nil {
		reject(err.Error())
	} else if changed {
		entry.Cause = c.event
	}
	return nil
}

// shortResult is how many bytes are checked without a place: that takes a millisecond, and a place may take seconds to come.
const shortResult = 4 << 10

// Place is a place to check the result of one event, by rules or by its schema. Rules can take seconds for each megabyte: there are half as many places
// as processors, by turns of those who asked, since all else in the process would wait. The zero Place is none yet.
type Place struct {
	of *inFlight
	t  *flight // nil: none
}

// ErrWaits says that a result has to wait for its place. Whoever handles the event lets go of the conversation, which may be a thousand times as large, calls
// [Place.Wait], and begins anew.
var ErrWaits = errors.New("the result waits for a place to be checked")

// Wait waits for the place. It returns the cause of ctx when ctx ends first.
func (p *Place) Wait(ctx context.Context) error {
	err := p.of.wait(ctx, p.t)
	if err != nil {
		p.t = nil
	}
	return err
}

// Leave gives the place back, if there is one. It has to be called in the end, also behind a panic.
func (p *Place) Leave() {
	if p.t != nil {
		p.of.drop(p.t)
		p.t = nil
	}
}

// place has p be a place for e, if one is needed. It returns false if that has to wait.
func (m *Maker) place(conv *conversation.Conversation, turn *conversation.Turn, e *transport.Event, p *Place) bool {
	if len(conversation.Brought(e)) == 0 {
		if b, err := json.Marshal(e.Payload); err == nil && len(b) <= shortResult {
			return true
		}
	}
	return m.enter(m.checking, conv, turn, e, p)
}

// uncheckedOf reports whether too many results of somebody's requests wait to be checked.
func (m *Maker) uncheckedOf(who string) bool {
	return m.checking.isFull(who) || m.validating.isFull(who)
}

// enter has p be a place of f for e, unless it is one already. It returns false if that has to wait.
func (m *Maker) enter(f *inFlight, conv *conversation.Conversation, turn *conversation.Turn, e *transport.Event, p *Place) bool {
	if p.t != nil {
		return true // it has waited
	}
	who := e.From
	if turn != nil {
		who = conv.Requester(turn)
	}
	p.of = f
	p.t, _ = f.ask(who, e, 0, m.cfg.Now()) // nobody is refused there
	return p.t.hasBegun()
}

// byKind returns the evaluators with rules, and those for which a model judges.
func byKind(all []evaluate.Evaluator) (rules, judges []evaluate.Evaluator) {
	for _, e := range all {
		if e.Judged() {
			judges = append(judges, e)
		} else {
			rules = append(rules, e)
		}
	}
	return rules, judges
}

// redacted returns a text of Cortex's own, which may quote a result, without what rules match, whatever their action is.
func redacted(rules []evaluate.Evaluator, text string) string {
	for i := range rules {
		for _, rule := range rules[i].Rules {
			text = rule.ReplaceAllLiteralString(text, "["+rules[i].Name+"]")
		}
	}
	return text
}

// evaluators returns those that check the result of t.
func (m *Maker) evaluators(t *conversation.Task, turn *conversation.Turn) []evaluate.Evaluator {
	var rules *policy.Policy
	if m.cfg.Policy != nil {
		rules = m.cfg.Policy()
	}
	from := ""
	if turn != nil {
		from = turn.From
	}
	return rules.Evaluators(from, t.Agent, t.Skill, t.Terms.Evaluators)
}

// errNoJudge says that there is no model to judge a result.
var errNoJudge = errors.New("no language model is there to judge")

// judge asks the decider's model about a result, within the budget. What it costs is the entry's, and the day's at once: the entry may never be stored.
func (m *Maker) judge(
	ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry, task, output string, criteria []string,
) (float64, string, error) {
	judge, ok := m.cfg.Decider.(llm.Judge)
	if !ok || turn == nil {
		return 0, "", errNoJudge
	}
	accounts, err := m.accounts(ctx, conv, turn, entry)
	if err != nil {
		return 0, "", err
	}
	budget, why := accounts.Allowance(llm.Usage{})
	if why != "" {
		return 0, "", errors.New(why)
	}
	if len(output) > llm.MaxJudged {
		return 0, "", fmt.Errorf("the result has %d bytes, and a model judges at most %d", len(output), llm.MaxJudged)
	}
	ctx, cancel := context.WithTimeout(llm.WithRequester(ctx, conv.Requester(turn)), m.cfg.DecideTimeout)
	defer cancel()
	v, err := judge.Judge(ctx, task, output, criteria, budget)
	if v == nil {
		return 0, "", errors.Join(err, errNoJudge)
	}
	cost := conversation.Credible(v.Usage)
	entry.Usage = entry.Usage.Add(cost)
	m.cfg.Spending.Spend(ctx, cost)
	return v.Score, v.Advice, err
}
