package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// DeciderOptions configures NewDecider.
type DeciderOptions struct {
	// MaxTokens bounds each reply of the model; 0 leaves it to the endpoint.
	MaxTokens int
}

// maxRepairs is how often a model is told what was wrong with its reply.
const maxRepairs = 2

// NewDecider returns a Decider that asks the model behind c, with prompts from tmpl. o may be nil.
//
// A reply that is no decision, or not one that passes [Check], is sent back to the model with the error, at most twice;
// then Decide returns an [ErrInvalidDecision]. An agent id that can only mean one agent, being another in nothing but
// its case or one letter, is corrected without asking. Decide streams the answer of the first reply that has one; words
// of a later reply are not streamed behind those of one that was not accepted. Errors of c are returned as they are and
// nothing is tried again: that is for a Client around c.
func NewDecider(c Client, tmpl *prompt.Templates, o *DeciderOptions) Decider {
	if c == nil || tmpl == nil {
		panic("llm: NewDecider needs a client and templates")
	}
	d := &decider{client: c, templates: tmpl}
	if o != nil {
		d.options = *o
	}
	return d
}

type decider struct {
	client    Client
	templates *prompt.Templates
	options   DeciderOptions
}

var _ Decider = (*decider)(nil)

func (d *decider) Decide(ctx context.Context, t *Turn, stream func(text string)) (*Decision, error) {
	p, err := d.templates.Render(&t.Input)
	if err != nil {
		return nil, err
	}
	r := &Request{System: p.System, Schema: DecisionSchema(t), CacheKey: t.ContextID, MaxTokens: d.options.MaxTokens}
	if t.Tenant != "" {
		r.CacheKey = t.Tenant + "/" + t.ContextID
	}
	for _, m := range p.Messages {
		r.Messages = append(r.Messages, Message{Role: Role(m.Role), Text: m.Text})
	}
	streamed := false
	var usage Usage
	for repairs := 0; ; repairs++ {
		emit := func(string) {}
		if stream != nil && !streamed {
			emit = func(text string) {
				streamed = true
				stream(text)
			}
		}
		text, done, err := d.ask(ctx, r, emit)
		usage = usage.Add(done.Usage)
		if err != nil {
			return nil, err
		}
		decision, err := accept(t, text)
		if err == nil {
			decision.Model, decision.Usage, decision.Repairs = done.Model, usage, repairs
			return decision, nil
		}
		if repairs == maxRepairs {
			return nil, fmt.Errorf("after %d corrections: %w", maxRepairs, err)
		}
		r.Messages = append(r.Messages, Message{RoleAssistant, replyFor(text)}, Message{RoleUser, correction(t, err)})
	}
}

// ask calls the model once and returns what it wrote, and its last chunk.
func (d *decider) ask(ctx context.Context, r *Request, emit func(string)) (string, Chunk, error) {
	var text strings.Builder
	say := newSayReader(emit)
	for chunk, err := range d.client.Generate(ctx, r) {
		if err != nil {
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return "", Chunk{}, fmt.Errorf("ask the model: %w", err)
		}
		if text.Len()+len(chunk.Text) > MaxDecision {
			return "", Chunk{}, fmt.Errorf("%w: the reply is longer than %d bytes", ErrInvalidDecision, MaxDecision)
		}
		text.WriteString(chunk.Text)
		say.write(chunk.Text)
		if chunk.Done {
			return text.String(), chunk, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return "", Chunk{}, fmt.Errorf("ask the model: %w", err)
	}
	return "", Chunk{}, fmt.Errorf("ask the model: %w after %d bytes", ErrTruncated, text.Len())
}

func accept(t *Turn, text string) (*Decision, error) {
	d, err := ParseDecision(text)
	if err != nil {
		return nil, err
	}
	correctAgents(t, d.Delegations)
	if err := Check(t, d); err != nil {
		return nil, err
	}
	return d, nil
}

// replyFor returns what the model wrote, for showing it to the model again. Endpoints refuse empty messages.
func replyFor(text string) string {
	if strings.TrimSpace(text) == "" {
		return "{}"
	}
	return prompt.CleanText(text, 16<<10)
}

// correction is the message that tells the model what was wrong, and what can be named.
func correction(t *Turn, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Your reply cannot be used: %s.\n", strings.TrimPrefix(err.Error(), ErrInvalidDecision.Error()+": "))
	const most = 20
	for i := range t.Agents[:min(len(t.Agents), most)] {
		if i == 0 {
			b.WriteString("Agents: ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(excerpt(t.Agents[i].ID))
	}
	switch n := len(t.Agents); {
	case n > most:
		fmt.Fprintf(&b, " and %d more, as listed.\n", n-most)
	case n > 0:
		b.WriteString(".\n")
	}
	b.WriteString("Reply again, with one JSON object of the form described and nothing else.")
	return b.String()
}
