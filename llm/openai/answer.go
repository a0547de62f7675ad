package openai

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sashabaranov/go-openai"

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
	call    *openai.ToolCall // the first piece of the first call
	second  bool             // pieces without an index or id belong to another call
	finish  string
	partial bool // the endpoint says that the answer is not complete
}

// errLeft means that the caller has left the loop.
var errLeft = errors.New("left")

// maxRefusal bounds how much of a refusal's text is kept, in bytes.
const maxRefusal = 4 << 10

// read reads a stream to its end: next reads a chunk, adds it, and returns the text to yield. read yields for each chunk, including those without text,
// which show that the model is working. It returns the error of an unusable answer only at the end, since the usage comes last.
func (a *answer) read(next func() (text string, err error), yield func(text string) bool) error {
	for {
		text, err := next()
		if errors.Is(err, io.EOF) {
			break
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

// addChunk adds a chunk of chat completions, and returns the text to yield.
func (a *answer) addChunk(chunk *openai.ChatCompletionStreamResponse) (string, error) {
	a.model = cmp.Or(chunk.Model, a.model)
	if chunk.Usage != nil {
		a.count(chunk.Usage)
	}
	var text strings.Builder
	for i := range chunk.Choices {
		if c := &chunk.Choices[i]; c.Index == 0 {
			piece, err := a.add(c)
			if err != nil {
				return "", err
			}
			text.WriteString(piece)
		}
	}
	return text.String(), nil
}

// unread returns the error of a stream that could not be read to its end.
func unread(err error) error {
	if _, ok := errors.AsType[*llm.Error](err); ok {
		return err
	}
	// Either a chunk that the SDK cannot decode, or a timeout of the HTTP client, which must not look like the end of the caller's context. Generate
	// checks that context first.
	return &llm.Error{Kind: llm.ErrUnavailable, Message: "a piece of the answer cannot be read: " + err.Error()}
}

// add adds a piece to the answer, and returns the text to yield.
func (a *answer) add(c *openai.ChatCompletionStreamChoice) (string, error) {
	if c.FinishReason != "" {
		a.finish = string(c.FinishReason)
	}
	if room := maxRefusal - a.refusal.Len(); room > 0 {
		a.refusal.WriteString(c.Delta.Refusal[:min(len(c.Delta.Refusal), room)])
	}
	text := c.Delta.Content
	if a.structured {
		if a.aside.Len()+len(text) > llm.MaxDecision {
			return "", &llm.Error{Kind: llm.ErrLength, Message: fmt.Sprintf("more than %d bytes, and no function call", llm.MaxDecision)}
		}
		a.aside.WriteString(text)
		text = a.arguments(c.Delta.ToolCalls)
	}
	return text, nil
}

// arguments returns what pieces add to the arguments of the first call. Each call begins with a piece that has the function's name and usually an id.
// Some endpoints send no index, some the same for each call, some a new id with each piece.
func (a *answer) arguments(pieces []openai.ToolCall) string {
	var text strings.Builder
	for _, p := range pieces {
		switch {
		case a.call == nil:
			a.call = &p
		case p.Index != nil && a.call.Index != nil && *p.Index != *a.call.Index:
			continue
		case p.Function.Name != "" && p.ID != "":
			a.second = p.ID != a.call.ID
		}
		if !a.second {
			text.WriteString(p.Function.Arguments)
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

// count records a usage; if there is one with each chunk, the last one counts.
func (a *answer) count(u *openai.Usage) {
	// In some totals there are thoughts that the completion does not include.
	n := llm.Usage{Input: max(u.PromptTokens, 0), Output: max(u.CompletionTokens, u.TotalTokens-u.PromptTokens, 0)}
	if d := u.PromptTokensDetails; d != nil {
		n.Cached = min(max(d.CachedTokens, 0), n.Input)
	}
	if d := u.CompletionTokensDetails; d != nil {
		n.Reasoning = min(max(d.ReasoningTokens, 0), n.Output)
	}
	if n.Tokens() > 0 {
		a.usage = n
	}
}
