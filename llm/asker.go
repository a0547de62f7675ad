package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
)

// Asker asks a model for JSON objects of a form of the caller's own, with the care of [NewDecider]: thoughts are not part of a reply, broken replies are
// asked for again, and a reply that the caller does not accept is returned to the model with the error, at most twice. It is safe for concurrent use.
type Asker struct{ decider *decider }

// NewAsker returns an Asker for the model behind c. o may be nil; Images and ReasonFirst are ignored.
func NewAsker(c Client, o *DeciderOptions) *Asker {
	if c == nil {
		panic("llm: NewAsker needs a client")
	}
	d := &decider{client: c}
	if o != nil {
		d.options = *o
	}
	return &Asker{d}
}

// Ask sends r, and returns what it cost when accept has accepted a reply. The texts of accept's errors are shown to the model. Ask changes the messages
// of r when it corrects the model. budget bounds all calls of this Ask. When no reply is accepted, the error wraps [ErrInvalidDecision]; other errors are
// those of [Decider.Decide]. The cost is right with an error, too.
func (a *Asker) Ask(ctx context.Context, r *Request, budget Budget, accept func(reply string) error) (Usage, error) {
	r.Temperature = cmp.Or(r.Temperature, a.decider.options.Temperature)
	want := a.decider.options.MaxTokens
	if r.MaxTokens > 0 && (want == 0 || r.MaxTokens < want) {
		want = r.MaxTokens
	}
	x := &exchange{decider: a.decider, budget: budget, want: want}
	for repairs := 0; ; repairs++ {
		reply, _, err := x.ask(ctx, r)
		if err != nil {
			return x.spent, err
		}
		if err = accept(reply); err == nil {
			return x.spent, nil
		}
		if repairs == maxRepairs {
			return x.spent, fmt.Errorf("after %d corrections: %w: %w", maxRepairs, ErrInvalidDecision, err)
		}
		answer := fmt.Sprintf("Your reply cannot be used: %s.\nReply again, with one JSON object of the form described and nothing else.", err)
		r.Messages = append(r.Messages, Assistant(replyFor(reply, x.left(r)-len(answer))), User(answer))
	}
}

// Fits reports whether the context window has room for r and an answer; always when the window is unknown.
func (a *Asker) Fits(r *Request) bool { return a.decider.left(r) >= 0 }

// ReadObject returns the fields of the first JSON object in a reply that has the key. It tolerates text around the object and line ends within strings,
// as [ParseDecision] does. The values share memory with the reply.
func ReadObject(key, reply string) (map[string]json.RawMessage, error) {
	object, fields, err := objectWith(key, reply)
	switch {
	case err != nil && object == "":
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", excerpt(object), err)
	case len(fields[key]) == 0:
		return nil, fmt.Errorf("%s has no %q", excerpt(object), key)
	}
	return fields, nil
}

// ReadInput returns structured input as models write it: an object or another value, or a string that contains it as JSON; nil for null or nothing.
func ReadInput(raw json.RawMessage) (json.RawMessage, error) { return readInput(raw) }
