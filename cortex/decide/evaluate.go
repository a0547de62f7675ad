package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Evaluate has the evaluators of the policy check the result that is the cause of entry: it sets the verdicts, replaces the cause by a redacted copy, and
// rejects what does not pass, also when that cannot be found out. What is no completed work, such as a question or why it failed, is checked by rules only.
// Evaluate does not block unless a model judges, which takes as long as a decision may, or a file has to be read. It returns an error when ctx ends.
func (m *Maker) Evaluate(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry) error {
	r, ok := conversation.ResultOf(entry.Cause)
	if !ok || !r.Settles() || entry.Rejected != "" {
		return nil
	}
	t := conv.Tasks[r.TaskID]
	if t == nil || t.Phase.Over() {
		return nil
	}
	turn := conv.Turn(t.Turn)
	all := m.evaluators(t, turn)
	if r.State != a2a.TaskStateCompleted {
		all = slices.DeleteFunc(all, func(e evaluate.Evaluator) bool { return e.Judged() })
	}
	if len(all) == 0 {
		return nil
	}
	reject := func(why string) { entry.Rejected = shorten.Line(why, maxRejected) }
	c, err := m.copyOf(ctx, conv.Tenant, entry.Cause)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		reject(err.Error())
		return nil
	}
	judge := func(ctx context.Context, task, output string, criteria []string) (float64, string, error) {
		return m.judge(ctx, conv, turn, entry, task, output, criteria)
	}
	texts := c.texts()
	entry.Verdicts, err = evaluate.Check(ctx, all, judge, t.Text, texts)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i := range entry.Verdicts {
		entry.Verdicts[i].Advice = shorten.Line(entry.Verdicts[i].Advice, maxRejected)
	}
	if err != nil {
		reject(err.Error())
		return nil
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

// judge asks the decider's model about a result, within the budget. What it costs is the entry's.
func (m *Maker) judge(
	ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry, task, output string, criteria []string,
) (float64, string, error) {
	judge, ok := m.cfg.Decider.(llm.Judge)
	if !ok || turn == nil {
		return 0, "", errNoJudge
	}
	accounts, err := m.cfg.Spending.Accounts(ctx, conv.Chain(turn).Usage.Add(entry.Usage), conv.Usage.Add(entry.Usage), entry.Time)
	if err != nil {
		return 0, "", err
	}
	budget, why := accounts.Allowance(llm.Usage{})
	if why != "" {
		return 0, "", errors.New(why)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.DecideTimeout)
	defer cancel()
	v, err := judge.Judge(ctx, task, output, criteria, budget)
	if v == nil {
		return 0, "", errors.Join(err, errNoJudge)
	}
	entry.Usage = entry.Usage.Add(conversation.Credible(v.Usage))
	return v.Score, v.Advice, err
}

// copied is a copy of a result that may be changed.
type copied struct {
	event *transport.Event
	slots []slot
}

// slot is a text of a result, which another can replace.
type slot struct {
	text string
	set  func(text, by string) error // by is the evaluator that has changed it
}

// maxChecked bounds a text file that is checked, in bytes: it is held in memory.
const maxChecked = 16 << 20

// copyOf copies a result, and reads its texts: text and data, text files, and the names of all. The error is for people unless ctx has ended.
func (m *Maker) copyOf(ctx context.Context, tenant string, e *transport.Event) (*copied, error) {
	event := *e
	c := &copied{event: &event}
	var err error
	switch p := e.Payload.(type) {
	case *a2a.Task:
		task := *p
		task.History = nil // it repeats what was said
		if task.Status.Message, err = m.copyMessage(ctx, tenant, c, p.Status.Message); err != nil {
			return nil, err
		}
		task.Artifacts = slices.Clone(p.Artifacts)
		for i, a := range p.Artifacts {
			if a == nil {
				continue
			}
			one := *a
			c.word(&one.Name)
			c.word(&one.Description)
			if one.Parts, err = m.copyParts(ctx, tenant, c, a.Parts); err != nil {
				return nil, err
			}
			task.Artifacts[i] = &one
		}
		event.Payload = &task
	case *a2a.TaskStatusUpdateEvent:
		update := *p
		update.Status.Message, err = m.copyMessage(ctx, tenant, c, p.Status.Message)
		event.Payload = &update
	case *a2a.Message:
		event.Payload, err = m.copyMessage(ctx, tenant, c, p)
	}
	return c, err
}

func (m *Maker) copyMessage(ctx context.Context, tenant string, c *copied, said *a2a.Message) (_ *a2a.Message, err error) {
	if said == nil {
		return nil, nil
	}
	one := *said
	one.Parts, err = m.copyParts(ctx, tenant, c, said.Parts)
	return &one, err
}

func (m *Maker) copyParts(ctx context.Context, tenant string, c *copied, of a2a.ContentParts) (a2a.ContentParts, error) {
	of = slices.Clone(of)
	for i, p := range of {
		if p == nil {
			continue
		}
		one := *p
		of[i] = &one
		switch content := p.Content.(type) {
		case a2a.Text:
			c.add(string(content), func(text, _ string) error { one.Content = a2a.Text(text); return nil })
		case a2a.Data:
			b, err := transport.EncodeValue(content.Value)
			if err != nil {
				return nil, fmt.Errorf("its data cannot be checked: %w", err)
			}
			c.add(string(b), func(text, by string) error {
				v, err := transport.DecodeValue([]byte(text))
				if err != nil {
					return fmt.Errorf("the result is no JSON any more, since the evaluator %s has redacted it", by)
				}
				one.Content = a2a.Data{Value: v}
				return nil
			})
		case a2a.URL, a2a.Raw:
			if url, ok := content.(a2a.URL); ok && !transport.IsFileRef(p) {
				c.add(string(url), func(text, _ string) error { one.Content = a2a.Text(text); return nil })
			} else if err := m.copyFile(ctx, tenant, c, &one); err != nil {
				return nil, err
			}
		}
		c.word(&one.Filename)
	}
	return of, nil
}

// copyFile adds the content of a text file, which can be left out but not changed.
func (m *Maker) copyFile(ctx context.Context, tenant string, c *copied, p *a2a.Part) error {
	if transport.IsForgotten(p) || transport.HeadOf(p) == "" {
		return nil // no text
	}
	keeper, _ := m.cfg.Transport.(transport.Files)
	b, err := transport.ReadPart(ctx, keeper, tenant, p, maxChecked)
	name, kind, _, _ := transport.FileOf(p)
	name = transport.FileName(name, kind, 1)
	if err != nil {
		return fmt.Errorf("the file %s cannot be checked: %w", name, err)
	}
	c.add(string(b), func(_, by string) error {
		*p = a2a.Part{Content: a2a.Text("[" + name + " is left out: the evaluator " + by + " does not pass it]")}
		return nil
	})
	return nil
}

func (c *copied) add(text string, set func(text, by string) error) {
	c.slots = append(c.slots, slot{text, set})
}

// word adds a name or a description.
func (c *copied) word(s *string) {
	if *s != "" {
		c.add(*s, func(text, _ string) error { *s = text; return nil })
	}
}

// texts returns the texts of the result.
func (c *copied) texts() []string {
	all := make([]string, len(c.slots))
	for i := range c.slots {
		all[i] = c.slots[i].text
	}
	return all
}

// replace replaces the texts that differ. It returns false if none does.
func (c *copied) replace(texts []string, by string) (changed bool, err error) {
	for i, s := range c.slots {
		if texts[i] == s.text {
			continue
		}
		changed = true
		if err := s.set(texts[i], by); err != nil {
			return true, err
		}
	}
	return changed, nil
}
