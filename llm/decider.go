package llm

import (
	"context"
	"fmt"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// DeciderOptions configures NewDecider.
type DeciderOptions struct {
	// MaxTokens bounds each reply of the model, thoughts included where the endpoint counts them; 0 leaves it to the endpoint.
	// Less is asked for when the Window has no room for so many.
	MaxTokens int
	// Temperature is how freely the model chooses its words; nil leaves it to the endpoint.
	Temperature *float64
	// Window is the model's context window: how many tokens a prompt and its answer may have together. 0: not known, and
	// nothing is counted.
	Window int
	// Images says that the model takes images: those of the newest messages are shown to it, at most [MaxImages].
	Images bool
}

// NewDecider returns a Decider that asks the model behind c, with prompts from tmpl. o may be nil.
//
// A reply that is no decision, or not one that passes [Check], is sent back to the model with the error, at most twice;
// then Decide returns an [ErrInvalidDecision]. An agent id that can only mean one agent, being another in nothing but
// its case or one letter, is corrected without asking. Decide streams the answer of the first reply that has one; words
// of a later reply are not streamed behind those of one that was not accepted. Thoughts that a reply begins with, see
// [ParseDecision], are no part of it.
//
// A reply that searches for agents, see [KindSearch], is answered with what Turn.Search finds, and the model is asked again; that
// is no correction. A fourth search of one decision is one, and so is a search where there is nothing to search.
//
// A reply that is empty, or that broke off after its first words (cut, or the endpoint unavailable or rate limited), is asked for
// once more, and one that ended at MaxTokens once more with twice as many; one that goes on beyond that is not. All other errors
// of c are returned as they are and nothing is tried again: that is for a Client around c. What was spent on a decision that
// failed is told by [UsageOf]. Before each call, Turn.Budget.Tokens has to have room for it and a short answer, by an estimate of
// the prompt's tokens, and the answer may have what is left; else Decide returns [ErrBudget]. Tokens of a reply that the endpoint
// did not count are estimated too, see [Usage].
//
// The Decider is a [Compactor]. Without a Window it compacts only when it is forced to.
func NewDecider(c Client, tmpl *prompt.Templates, o *DeciderOptions) Decider {
	if c == nil || tmpl == nil {
		panic("llm: NewDecider needs a client and templates")
	}
	d := &decider{client: c, templates: tmpl}
	if o != nil {
		d.options = *o
		if o.Temperature != nil {
			d.options.Temperature = new(*o.Temperature)
		}
	}
	return d
}

type decider struct {
	client    Client
	templates *prompt.Templates
	options   DeciderOptions
	gauge     gauge
}

var (
	_ Decider   = (*decider)(nil)
	_ Compactor = (*decider)(nil)
)

func (d *decider) Decide(ctx context.Context, t *Turn, stream func(text string)) (*Decision, error) {
	r, p, err := d.request(t)
	if err != nil {
		return nil, err
	}
	if err := d.show(ctx, t, r, p, d.shown(p)); err != nil {
		return nil, err
	}
	x := &exchange{decider: d, budget: t.Budget, stream: stream, want: d.options.MaxTokens}
	s := &search{turn: *t}
	for repairs := 0; ; {
		reply, model, err := x.ask(ctx, r)
		if err != nil {
			return nil, x.fail(err)
		}
		decision, words, err := s.accept(reply)
		var answer string
		switch {
		case err == nil && decision.Kind == KindSearch:
			if answer, err = s.answer(d.templates, words, x.left(r)); err != nil {
				return nil, x.fail(err)
			}
		case err == nil:
			decision.Model, decision.Usage, decision.Repairs, decision.Searches = model, x.spent, repairs, s.words
			return decision, nil
		case repairs == maxRepairs:
			return nil, x.fail(fmt.Errorf("after %d corrections: %w", maxRepairs, err))
		default:
			repairs++
			answer = correction(&s.turn, err)
		}
		r.Messages = append(r.Messages, Assistant(replyFor(reply, x.left(r)-len(answer))), User(answer))
	}
}

// request returns the first request for a decision about t, without the images that are shown, and its prompt.
func (d *decider) request(t *Turn) (*Request, *prompt.Prompt, error) {
	p, err := d.templates.Render(&t.Input)
	if err != nil {
		return nil, nil, err
	}
	r := d.requestOf(p)
	r.Schema, r.CacheKey = DecisionSchema(t), t.ContextID
	if t.Tenant != "" {
		r.CacheKey = t.Tenant + "/" + t.ContextID
	}
	d.name(r, p, d.shown(p))
	return r, p, nil
}

func (d *decider) requestOf(p *prompt.Prompt) *Request {
	r := &Request{System: p.System, Messages: make([]Message, len(p.Messages)), Temperature: d.options.Temperature}
	for i, m := range p.Messages {
		r.Messages[i] = Message{Role(m.Role), []Part{{Text: m.Text}}}
	}
	return r
}
