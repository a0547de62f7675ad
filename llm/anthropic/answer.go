package anthropic

import (
	"fmt"
	"math"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/cortex-orchestrator/cortex/llm"
)

// answer collects the events of an answer.
type answer struct {
	tools  bool            // the model was asked to call the function
	held   strings.Builder // with tools: text, until it is known to be the answer
	called bool
	call   int64 // the index of the block with the call
	wrote  bool  // more than white space

	ended     bool // the endpoint has said that the answer is complete
	finish    anthropic.StopReason
	why       string // the explanation with finish
	model, id string
	usage     llm.Usage
}

// add adds the next event and returns the text to yield. Thoughts and unknown parts add none.
func (a *answer) add(e *anthropic.MessageStreamEventUnion) string {
	switch e.Type {
	case "message_start":
		a.id = e.Message.ID
		if e.Message.Model != "" {
			a.model = e.Message.Model
		}
		u := &e.Message.Usage
		a.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	case "content_block_start":
		if a.tools && !a.called && e.ContentBlock.Type == "tool_use" {
			a.called, a.call = true, e.Index
		}
	case "content_block_delta":
		return a.delta(e)
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.finish, a.why = e.Delta.StopReason, e.Delta.StopDetails.Explanation
		}
		// The counts are sums, and older endpoints repeat only that of the output.
		u := &e.Usage
		if u.JSON.InputTokens.Valid() {
			a.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
		} else if u.JSON.OutputTokens.Valid() {
			a.usage.Output, a.usage.Reasoning = tokens(u.OutputTokens), tokens(u.OutputTokensDetails.ThinkingTokens)
		}
	case "message_stop":
		a.ended = true
	}
	return ""
}

// count sets the usage. The API counts what it read from the cache, what it wrote to it, and the rest apart.
func (a *answer) count(input, cached, written, output, thoughts int64) {
	a.usage = llm.Usage{
		Input: tokens(input) + tokens(cached) + tokens(written), Cached: tokens(cached), CacheWrite: tokens(written),
		Output: tokens(output), Reasoning: min(tokens(thoughts), tokens(output)),
	}
}

// tokens returns a count, which may be invalid, as an int.
func tokens(n int64) int { return int(max(0, min(n, math.MaxInt32))) }

// delta returns the text that a piece of a block adds to the answer now.
func (a *answer) delta(e *anthropic.MessageStreamEventUnion) string {
	switch {
	case e.Delta.Type == "input_json_delta" && a.called && e.Index == a.call:
		a.wrote = a.wrote || strings.TrimSpace(e.Delta.PartialJSON) != ""
		return e.Delta.PartialJSON
	case e.Delta.Type != "text_delta" || a.called:
		return ""
	}
	a.wrote = a.wrote || strings.TrimSpace(e.Delta.Text) != ""
	if a.tools {
		a.hold(e.Delta.Text)
		return ""
	}
	return e.Delta.Text
}

// hold holds text back. More than a decision may have makes none, and would be refused for its length.
func (a *answer) hold(text string) {
	a.held.WriteString(text[:min(len(text), max(0, llm.MaxDecision+1-a.held.Len()))])
}

// rest returns the text that was held back, at the end, unless the function was called.
func (a *answer) rest() string {
	if a.called {
		return ""
	}
	return a.held.String()
}

// complete reports whether the endpoint has said how the answer ends.
func (a *answer) complete() bool { return a.ended || a.finish != "" }

// verdict returns what is wrong with an answer whose stream has ended properly, or nil. Unknown reasons count as success.
func (a *answer) verdict() *llm.Error {
	fail := func(kind error, words string) *llm.Error {
		if a.why != "" {
			words = fmt.Sprintf("%s: %s", words, a.why)
		}
		return &llm.Error{Kind: kind, Code: string(a.finish), Message: words}
	}
	switch {
	case !a.complete():
		return fail(llm.ErrTruncated, "the stream ended without a stop reason")
	case a.finish == anthropic.StopReasonRefusal:
		return fail(llm.ErrRefused, "the model, or a filter, ended the answer")
	case a.finish == anthropic.StopReasonMaxTokens:
		return fail(llm.ErrLength, "the token limit ended the answer")
	case a.finish == anthropic.StopReasonModelContextWindowExceeded:
		return fail(llm.ErrTooLong, "the prompt and the answer do not fit into the model's window")
	case a.finish == anthropic.StopReasonPauseTurn:
		return fail(llm.ErrTruncated, "the endpoint wants to be asked for the rest")
	case !a.wrote:
		return fail(llm.ErrEmpty, "no text")
	}
	return nil
}
