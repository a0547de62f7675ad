package openai

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// answer collects the chunks of one answer.
type answer struct {
	structured bool   // the answer is a function call
	whole      bool   // the answer has to say that it is complete
	model      string // the model that answered
	requestID  string
	usage      llm.Usage

	wrote   bool            // text was yielded
	aside   strings.Builder // text of an answer that should be a function call
	refusal strings.Builder
	call    *call // the first piece of the first call
	second  bool  // pieces without an index or id belong to another call
	finish  string
	partial bool // the endpoint says that the answer is not complete
}

// errLeft means that the caller has left the loop.
var errLeft = errors.New("left")

// maxRefusal bounds how much of a refusal's text is kept, in bytes.
const maxRefusal = 4 << 10

// piece is what one chunk adds to an answer.
type piece struct {
	text, refusal, finish string
	calls                 []call
}

// call is a piece of a function call.
type call struct {
	index               *int // nil: unknown
	id, name, arguments string
}

// read reads the parts of a response to their end. It yields for each, including those without text, which show that the model is working. It returns
// the error of an unusable answer only at the end, since the usage comes last.
func (a *answer) read(r *repair, yield func(text string) bool) error {
	for {
		p, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		text := ""
		if err == nil {
			text, err = p.addTo(a)
		}
		if err != nil {
			return unread(err)
		}
		a.wrote = a.wrote || text != ""
		if !yield(text) {
			return errLeft
		}
	}
	if err := a.judge(); err != nil {
		return err
	}
	if a.aside.Len() > 0 && a.call == nil {
		a.wrote = true
		if !yield(a.aside.String()) {
			return errLeft
		}
	}
	if !a.wrote {
		return &llm.Error{Kind: llm.ErrEmpty, Code: a.finish, Message: "the model wrote nothing"}
	}
	return nil
}

// unread returns the error of a stream that could not be read to its end.
func unread(err error) error {
	if _, ok := errors.AsType[*llm.Error](err); ok {
		return err
	}
	// Either a piece that is no text, or a timeout of the HTTP client, which must not look like the end of the caller's context. Generate
	// checks that context first.
	return &llm.Error{Kind: llm.ErrUnavailable, Message: "a piece of the answer cannot be read: " + err.Error()}
}

// add adds a piece to the answer, and returns the text to yield.
func (a *answer) add(p *piece) (string, error) {
	if p.finish != "" {
		a.finish = p.finish
	}
	if room := maxRefusal - a.refusal.Len(); room > 0 {
		a.refusal.WriteString(p.refusal[:min(len(p.refusal), room)])
	}
	text := p.text
	if a.structured {
		if a.aside.Len()+len(text) > llm.MaxDecision {
			return "", &llm.Error{Kind: llm.ErrLength, Message: fmt.Sprintf("more than %d bytes, and no function call", llm.MaxDecision)}
		}
		a.aside.WriteString(text)
		text = a.arguments(p.calls)
	}
	return text, nil
}

// arguments returns what pieces add to the arguments of the first call. Each call begins with a piece that has the function's name and usually an id.
// Some endpoints send no index, some the same for each call, some a new id with each piece.
func (a *answer) arguments(pieces []call) string {
	var text strings.Builder
	for _, p := range pieces {
		switch {
		case a.call == nil:
			a.call = &p
		case p.index != nil && a.call.index != nil && *p.index != *a.call.index:
			continue
		case p.name != "" && p.id != "":
			a.second = p.id != a.call.id
		}
		if !a.second {
			text.WriteString(p.arguments)
		}
	}
	return text.String()
}

// endings are parts of finish reasons, in lower case, that mean that an answer is unusable; the first match counts. Other reasons, such as "stop",
// mean a complete answer.
var endings = []struct {
	reasons []string
	kind    error
	says    string
}{
	{[]string{"malformed_function_call"}, llm.ErrEmpty, "the model's function call could not be read"}, // Google's
	{[]string{"context_window"}, llm.ErrLength, "the model had to stop before it was done: prompt and answer fill its window"},
	{[]string{"length", "max_tokens", "max_output_tokens"}, llm.ErrLength, "the model had to stop before it was done: set max_tokens higher"},
	{[]string{"abort", "insufficient_system_resource", "network_error"}, llm.ErrTruncated, "the endpoint gave up the answer"},
	{
		[]string{"filter", "safety", "sensitive", "recitation", "prohibited_content", "blocklist", "spii", "refusal", "guardrail"},
		llm.ErrRefused, "a filter of the endpoint stopped the answer",
	},
}

// judge returns an error if the answer is unusable.
func (a *answer) judge() error {
	if a.refusal.Len() > 0 {
		return &llm.Error{Kind: llm.ErrRefused, Code: "refusal", Message: strings.ToValidUTF8(a.refusal.String(), "")}
	}
	finish := strings.ToLower(a.finish)
	for _, e := range endings {
		if slices.ContainsFunc(e.reasons, func(s string) bool { return strings.Contains(finish, s) }) {
			return &llm.Error{Kind: e.kind, Code: a.finish, Message: e.says}
		}
	}
	switch {
	case a.partial:
		return &llm.Error{Kind: llm.ErrTruncated, Code: a.finish, Message: "the endpoint gave up the answer"}
	case a.whole && a.finish == "":
		return &llm.Error{Kind: llm.ErrTruncated, Message: "the stream ended before the answer was complete"}
	}
	return nil
}

// counted is the usage of an answer as an endpoint says it.
type counted struct{ input, output, total, cached, written, reasoning int }

// count records a usage; if there is one with each chunk, the last one counts.
func (a *answer) count(u counted) {
	// In some totals there are thoughts that the completion does not include.
	n := llm.Usage{Input: max(u.input, 0), Output: max(u.output, u.total-u.input, 0)}
	n.Cached = min(max(u.cached, 0), n.Input)
	n.CacheWrite = min(max(u.written, 0), n.Input-n.Cached)
	n.Reasoning = min(max(u.reasoning, 0), n.Output)
	if n.Tokens() > 0 {
		a.usage = n
	}
}
