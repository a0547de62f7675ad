package decide

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// evaluatePost has those evaluators of the policy that have rules check a post, which is the cause of entry, as they check the result of the task for which
// it is posted. A post that does not pass is not put on the board.
func (m *Maker) evaluatePost(ctx context.Context, conv *conversation.Conversation, entry *conversation.Entry, place *Place, p *transport.Post) error {
	t := conv.Tasks[entry.Cause.TaskID]
	if t == nil {
		return nil
	}
	turn := conv.Turn(t.Turn)
	rules, _ := byKind(m.evaluators(t, turn))
	if len(rules) == 0 {
		return nil
	}
	if !m.place(conv, turn, entry.Cause, place) {
		return ErrWaits
	}
	texts := []string{p.Text}
	var err error
	entry.Verdicts, err = evaluate.Check(ctx, rules, nil, t.Text, texts)
	place.Leave()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	why := ""
	for i := range entry.Verdicts {
		v := &entry.Verdicts[i]
		if v.Advice = shorten.Line(redacted(rules, v.Advice), maxRejected); !v.Pass && v.Action == evaluate.Fail {
			why = v.Words()
		}
	}
	if err != nil {
		why = err.Error()
	}
	if len(texts[0]) > transport.MaxPost {
		why = "it is too long without what rules take out"
	}
	entry.Rejected = shorten.Line(redacted(rules, why), maxRejected)
	if texts[0] != p.Text || entry.Rejected != "" {
		e, its := *entry.Cause, *p
		if its.Text = texts[0]; entry.Rejected != "" {
			its.Text = "-"
		}
		e.Payload = &its
		entry.Cause = &e
	}
	return nil
}
