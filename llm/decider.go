package llm

import (
	"context"
	"errors"
	"fmt"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// DeciderOptions configures NewDecider.
type DeciderOptions struct {
	// MaxTokens bounds each reply of the model, including thoughts where the endpoint counts them; 0 leaves it to the endpoint. The decider requests
	// less when the Window has no room for that many.
	MaxTokens int
	// Temperature is the sampling temperature; nil leaves it to the endpoint.
	Temperature *float64
	// Window is the model's context window in tokens, for a prompt and its answer together. 0: unknown, and nothing is counted.
	Window int
	// Images says that the model accepts images: it is shown those of the latest messages, at most [MaxImages].
	Images bool
	// ReasonFirst has the model write its reason before the rest of its decision: some small models decide better by it, and the answer is streamed
	// later.
	ReasonFirst bool
}

// NewDecider returns a Decider that asks the model behind c, with prompts from tmpl. o may be nil.
//
// A reply that is no decision, or does not pass [Check], is returned to the model with the error, at most twice; then Decide returns
// [ErrInvalidDecision]. An agent id that differs from only one agent's in case or one letter is corrected without asking. Decide streams the answer
// of the first reply that has one; the text of a later reply is not streamed after that of a rejected one. Thoughts at the beginning of a reply are
// not part of it; see [ParseDecision].
//
// A reply that searches for agents, see [KindSearch], is answered with the result of Turn.Search, and one that reads, see [KindRead], with a part of the
// text, and the model is asked again; that does not count as a correction. A fourth search or read of one decision does, and so does one of what is not
// there.
//
// When a reply is empty, or breaks off after its first words (cut off, or the endpoint unavailable or rate limited), Decide asks once more. When it
// ends at MaxTokens, Decide asks once more with twice as many, unless the reply never ends. All other errors of c are returned unchanged without a
// retry: retries are up to a Client that wraps c. [UsageOf] returns the cost of a failed decision. Before each call, Turn.Budget.Tokens must have
// room for it and a short answer, by an estimate of the prompt's tokens, and bounds the answer; otherwise Decide returns [ErrBudget]. Tokens of a
// reply that the endpoint did not count are estimated, too; see [Usage].
//
// The Decider is a [Compactor]. Without a Window it compacts only with force.
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
	r, p, err := d.take(t)
	if err != nil {
		return nil, err
	}
	if err := d.show(ctx, t, r, p, d.shown(p)); err != nil {
		return nil, err
	}
	x := &exchange{decider: d, budget: t.Budget, stream: stream, want: d.options.MaxTokens}
	w := &wishes{turn: *t}
	for {
		reply, model, err := x.ask(ctx, r)
		if err != nil {
			return nil, x.fail(err)
		}
		decision, asked, err := w.accept(reply)
		if err == nil && decision.Kind.row().check != nil {
			decision.Model, decision.Usage, decision.Repairs, decision.Searches, decision.Reads = model, x.spent, x.repairs, w.words, w.reads
			return decision, nil
		}
		var answer string
		if err == nil {
			answer, err = w.grant(ctx, d.templates, asked, x.left(r))
		}
		switch {
		case err == nil:
		case !errors.Is(err, ErrInvalidDecision):
			return nil, x.fail(err)
		case x.repairs == maxRepairs:
			return nil, x.fail(fmt.Errorf("after %d corrections: %w", maxRepairs, err))
		default:
			x.repairs++
			answer = correction(&w.turn, err)
		}
		r.Messages = append(r.Messages, Assistant(replyFor(reply, x.left(r)-len(answer))), User(answer))
	}
}

// take returns the first request for a decision about t, and its prompt. The caller may change the request.
func (d *decider) take(t *Turn) (*Request, *prompt.Prompt, error) {
	if m := t.made; m != nil && m.by == d {
		t.made = nil
		return m.request, m.prompt, nil
	}
	return d.request(t)
}

// request returns the first request for a decision about t, without images, and its prompt.
func (d *decider) request(t *Turn) (*Request, *prompt.Prompt, error) {
	turn := *t
	turn.ReasonFirst = d.options.ReasonFirst
	p, err := d.templates.Render(&turn.Input)
	if err != nil {
		return nil, nil, err
	}
	r := d.requestOf(p)
	r.Schema, r.CacheKey = DecisionSchema(&turn), t.ContextID
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
