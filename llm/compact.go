package llm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// What a summary should have: an eighth of the window and so many tokens. A model may write more than that, since its thoughts
// may count; its text is cut to twice that share of the window, and so many bytes.
const (
	summaryShare = 8
	summaryMost  = 2048
	summaryBytes = 16<<10 - 64 // with the note of a cut it is within what a prompt shows
)

// Compact implements [Compactor]. Turns are left out only where it is the model that cannot summarise them. All else, such as
// an endpoint that is not reached, an answer that broke off, ctx's end or a budget that is used up, is an error without a
// summary: the same question later may bring one.
func (d *decider) Compact(ctx context.Context, t *Turn, force bool) (*Summary, error) {
	need, fits, err := d.fits(t)
	if err != nil || (fits && !force) {
		return nil, err
	}
	why := "the endpoint says that it does not fit into the model's window"
	if !fits {
		why = d.tooMany(need)
	}
	if len(t.History) == 0 {
		return nil, fmt.Errorf("%w: %s; %s", ErrTooLong, why, saidTooMuch)
	}
	x := &exchange{decider: d, budget: t.Budget, want: max(summaryMost, d.options.MaxTokens)}
	s := &Summary{Turns: (len(t.History) + 1) / 2}
	if s.Text, s.Model, err = x.summarise(ctx, &t.Input, s.Turns); err != nil {
		err = x.fail(fmt.Errorf("summarise %d turns: %w", s.Turns, err))
		if ctx.Err() != nil || !unable(err) {
			return nil, err
		}
	}
	s.Usage = x.spent
	return s, err
}

// unable reports whether err says that the model cannot make a summary, and nothing else: of several endpoints that were asked,
// one may just not have been reached.
func unable(err error) bool {
	is := func(kind error) bool { return errors.Is(err, kind) }
	return slices.ContainsFunc([]error{ErrRefused, ErrTooLong, ErrEmpty, ErrLength, ErrInvalidDecision}, is) &&
		!slices.ContainsFunc([]error{ErrUnavailable, ErrRateLimited, ErrTruncated, ErrQuota, ErrAuth, ErrNoModel, ErrBadRequest, ErrBudget}, is)
}

const saidTooMuch = "shorten what is said, or take a model with a larger window"

// tooMany says that so many tokens are more than there is room for.
func (d *decider) tooMany(tokens int) string {
	return fmt.Sprintf("it has about %d tokens, and the model's window %d", tokens, d.options.Window)
}

// fits reports whether the prompt for t leaves room for an answer, and how many tokens it has if it does not. What nothing can
// be taken away from may do with less room than usual, and so may then the conversation before it: else each of its turns
// would be summarised at once. It returns an [ErrTooLong] when no summary can make t fit.
func (d *decider) fits(t *Turn) (need int, ok bool, err error) {
	window := d.options.Window
	if window <= 0 {
		return 0, true, nil
	}
	room := d.options.room(d.options.MaxTokens)
	if need, err = d.promptFor(t); err != nil || need <= room {
		return need, err == nil, err
	}
	alone := *t
	alone.History, alone.Summary = nil, ""
	least, err := d.promptFor(&alone)
	if err == nil && least > window {
		err = fmt.Errorf("%w: %s, also without the conversation before; %s", ErrTooLong, d.tooMany(least), saidTooMuch)
	}
	if err != nil {
		return 0, false, err
	}
	if least > room {
		room = window - window/leastShare
	}
	if least > room || len(t.History) == 0 {
		room = window
	}
	return need, need <= room, nil
}

// promptFor returns how many tokens the prompt for t has.
func (d *decider) promptFor(t *Turn) (int, error) {
	r, p, err := d.request(t)
	if err != nil {
		return 0, err
	}
	return d.gauge.prompt(r) + len(d.shown(p))*ImageTokens, nil
}

// summarise asks for a summary of in.Summary and the first turns of in.History.
func (x *exchange) summarise(ctx context.Context, in *prompt.Input, turns int) (text, model string, err error) {
	r, err := x.summaryRequest(in, turns)
	if err != nil {
		return "", "", err
	}
	text, model, err = x.ask(ctx, r)
	if err != nil && !errors.Is(err, ErrLength) { // the beginning of a summary is better than none
		return "", "", err
	}
	limit := summaryBytes
	if w := x.options.Window; w > 0 { // one that fills the window would have to be summarised again, for ever
		limit = min(limit, x.gauge.bytes(2*w/summaryShare))
	}
	if text = strings.TrimSpace(prompt.CleanText(text, limit)); text != "" {
		return text, model, nil
	}
	if err == nil {
		err = fmt.Errorf("%w: nothing that can be shown", ErrEmpty)
	}
	return "", "", err
}

// summaryRequest returns the request for a summary, with as much of the oldest texts cut as is needed to make it fit into the
// window.
func (x *exchange) summaryRequest(in *prompt.Input, turns int) (*Request, error) {
	most := summaryMost
	if w := x.options.Window; w > 0 {
		most = min(most, max(1, w/summaryShare))
	}
	room := x.gauge.bytes(x.options.room(most))
	var fitting *Request
	var failure error
	fits := func(cut int) bool {
		short, _ := withoutOldest(in, turns, cut)
		p, err := x.templates.Summary(short, turns)
		if err != nil {
			failure = err
			return true
		}
		r := x.requestOf(p)
		if bytes, _ := r.Size(); x.options.Window > 0 && bytes > room {
			return false
		}
		fitting = r
		return true
	}
	if !fits(0) {
		_, all := withoutOldest(in, turns, math.MaxInt)
		sort.Search(all+1, fits) // the last one found to fit is the one with the least cut
	}
	switch {
	case failure != nil:
		return nil, failure
	case fitting == nil:
		return nil, fmt.Errorf("%w: not even a request for a summary fits into the model's window of %d tokens", ErrTooLong, x.options.Window)
	}
	return fitting, nil
}

// withoutOldest returns in without the first bytes of what is said in its first turns, with notes where they were; its
// summary, which is denser, comes last. done is how many bytes that are, if there are less.
func withoutOldest(in *prompt.Input, turns, bytes int) (out *prompt.Input, done int) {
	if bytes <= 0 {
		return in, 0
	}
	const note = "[…]"
	cut := func(s string) string {
		n := min(len(s), bytes-done)
		if done += n; n <= len(note) {
			return s
		}
		return note + strings.ToValidUTF8(s[n:], "")
	}
	short := *in
	short.History = slices.Clone(in.History[:turns])
	for i := range short.History {
		h := &short.History[i]
		h.User = cut(h.User)
		for ; len(h.Files) > 0 && done < bytes; h.Files = h.Files[1:] {
			done += 1 + len(h.Files[0].Name) + len(h.Files[0].Type)
		}
		h.Steps = slices.Clone(h.Steps)
		for j := range h.Steps {
			tasks := slices.Clone(h.Steps[j].Tasks)
			for k := range tasks {
				a := &tasks[k]
				a.Text, a.Result = cut(a.Text), cut(a.Result)
				a.Artifacts = slices.Clone(a.Artifacts)
				for l := range a.Artifacts {
					a.Artifacts[l].Text = cut(a.Artifacts[l].Text)
				}
			}
			h.Steps[j].Tasks = tasks
		}
		h.Answer = cut(h.Answer)
	}
	short.Summary = cut(short.Summary)
	return &short, done
}
