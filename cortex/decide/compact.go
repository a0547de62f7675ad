package decide

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Bounds of summaries.
const (
	maxSummaries = 8        // summaries before one call of the decider; each covers half of the history
	maxTooLong   = 3        // how often a decider that finds its prompt too long is asked again with a shorter one
	maxSummary   = 32 << 10 // bytes of text
)

// compact summarises the beginning of the conversation until the rest fits. It also does that when the window is nearly full, since its beginning
// would otherwise soon be left out.
func (d *decision) compact(ctx context.Context) error {
	if _, ok := d.m.cfg.Decider.(llm.Compactor); !ok {
		return nil
	}
	for n := 0; n < maxSummaries && d.conv.NearlyFull(d.turn, d.summarised()); n++ {
		if more, err := d.summarise(ctx, nearlyFull); err != nil {
			return err
		} else if !more {
			break
		}
	}
	for range maxSummaries {
		if more, err := d.summarise(ctx, ifTooLong); err != nil || !more {
			return err
		}
	}
	return nil
}

// summarised returns how many turns of the window the summary covers so far.
func (d *decision) summarised() int {
	if d.entry.Summary == nil {
		return 0
	}
	return d.entry.Summary.Turns
}

// reason is why turns are summarised.
type reason int

const (
	ifTooLong  reason = iota // if they do not fit according to the decider
	tooLong                  // they did not fit
	nearlyFull               // the window has many
)

// summarise summarises the older half of the history, and reports whether the history has become shorter.
func (d *decision) summarise(ctx context.Context, why reason) (shorter bool, err error) {
	t, err := d.see()
	if err != nil {
		return false, err
	}
	sctx := ctx
	if why == nearlyFull { // this summary is optional, so it must leave time for the decision; others are necessary
		end, _ := ctx.Deadline()
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		sctx = half
	}
	s, err := within(ctx, d, func() (*llm.Summary, error) {
		return d.m.cfg.Decider.(llm.Compactor).Compact(sctx, t, why != ifTooLong)
	}, func(s *llm.Summary) (cost llm.Usage) {
		if s != nil {
			cost = s.Usage
		}
		return cost
	})
	switch {
	case errors.Is(err, errStuck):
		return false, err
	case s == nil && err == nil:
		d.fits = t
		return false, nil
	case s == nil || s.Usage == (llm.Usage{}):
		d.pay(llm.UsageOf(err))
	default:
		d.pay(s.Usage)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if s == nil && errors.Is(err, llm.ErrTooLong) { // for explain: the conversation is not what is too long
		t.History = nil
	}
	if s == nil && why != nearlyFull { // a decision would fail, too
		return false, err
	}
	if err != nil {
		d.m.log.WarnContext(ctx, "conversation not summarised", "context_id", d.conv.ContextID, "turn", d.turn.ID, "err", conversation.Explain(err))
	}
	if s == nil {
		return false, nil
	}
	turns, text := min(s.Turns, len(t.History)), strings.TrimSpace(strings.ToValidUTF8(s.Text, "\uFFFD"))
	if turns <= 0 || (text == "" && why == nearlyFull) { // there is still room
		return false, nil
	}
	made := d.entry.Summary
	if made == nil {
		made = &llm.Summary{}
		d.entry.Summary = made
	}
	made.Turns += turns
	made.Usage = made.Usage.Add(conversation.Credible(s.Usage))
	if text == "" {
		d.entry.Omitted += turns
	} else {
		made.Text, made.Model = conversation.Truncate(text, maxSummary), s.Model
	}
	d.m.log.InfoContext(ctx, "conversation summarised", "context_id", d.conv.ContextID, "turn", d.turn.ID, "turns", turns, "text", len(made.Text))
	return true, nil
}
