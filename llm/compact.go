package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// The size of a summary: an eighth of the window, and at most this many tokens. A model may write more, since its thoughts may count; its text is cut
// to twice that share of the window, and to this many bytes.
const (
	summaryShare = 8
	summaryMost  = 2048
	summaryBytes = 16<<10 - 64 // with the note of a cut it is within the bound of a prompt
)

// Compact implements [Compactor]. Turns are left out only when the model itself cannot summarise them. Other errors, such as an unavailable endpoint,
// an answer that was cut off, the end of ctx or a used-up budget, are returned without a summary: the same request may succeed later.
func (d *decider) Compact(ctx context.Context, t *Turn, force bool) (*Summary, error) {
	need, fits, err := d.fits(t)
	if err != nil || (fits && !force) {
		return nil, err
	}
	t.made = nil // the caller shortens t
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

// unable reports whether err means only that the model cannot make a summary, and not that one of several endpoints was unavailable.
func unable(err error) bool {
	is := func(kind error) bool { return errors.Is(err, kind) }
	return slices.ContainsFunc([]error{ErrRefused, ErrTooLong, ErrEmpty, ErrLength, ErrInvalidDecision}, is) &&
		!slices.ContainsFunc([]error{ErrUnavailable, ErrRateLimited, ErrTruncated, ErrQuota, ErrAuth, ErrNoModel, ErrBadRequest, ErrBudget}, is)
}

const saidTooMuch = "shorten what is said, or take a model with a larger window"

// tooMany states that this many tokens do not fit.
func (d *decider) tooMany(tokens int) string {
	return fmt.Sprintf("it has about %d tokens, and the model's window %d", tokens, d.options.Window)
}

// fits reports whether the prompt for t leaves room for an answer, and otherwise how many tokens it has. If the part that cannot be shortened takes
// more room than usual, that is accepted, and so is the conversation before it: otherwise each of its turns would be summarised at once. It returns
// [ErrTooLong] when no summary can make t fit.
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

// promptFor returns the estimated number of tokens of the prompt for t, which it keeps for Decide.
func (d *decider) promptFor(t *Turn) (int, error) {
	r, p, err := d.request(t)
	if err != nil {
		return 0, err
	}
	t.made = &made{d, r, p}
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
	if w := x.options.Window; w > 0 { // one that fills the window would have to be summarised again and again
		limit = min(limit, x.gauge.bytes(2*w/summaryShare))
	}
	if text = strings.TrimSpace(prompt.CleanText(text, limit)); text != "" {
		return text, model, nil
	}
	err = cmp.Or(err, fmt.Errorf("%w: nothing that can be shown", ErrEmpty))
	return "", "", err
}

// summaryRequest returns the request for a summary, with the oldest texts cut as far as necessary to fit into the window.
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
		sort.Search(all+1, fits) // the last call that fits cuts the least
	}
	switch {
	case failure != nil:
		return nil, failure
	case fitting == nil:
		return nil, fmt.Errorf("%w: not even a request for a summary fits into the model's window of %d tokens", ErrTooLong, x.options.Window)
	}
	return fitting, nil
}

// withoutOldest returns in without the first bytes of its first turns' texts, replaced by notes. The summary, which is denser, is cut last. done is
// how many bytes were cut, which may be less.
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
