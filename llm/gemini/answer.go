package gemini

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// answer collects the parts of an answer.
type answer struct {
	x      *exchange
	tools  bool            // the model was asked to call the function
	held   strings.Builder // with tools: text, until it is known to be the answer
	called bool
	wrote  bool // more than white space

	candidate bool // there was a candidate
	some      bool // there was a response
	finish    genai.FinishReason
	block     genai.BlockedReason
	why       string // the message with finish or block
	model, id string
	usage     llm.Usage
}

// add adds the next response and returns the text to yield.
func (a *answer) add(r *genai.GenerateContentResponse) string {
	a.some = true
	if r.ModelVersion != "" {
		a.model = r.ModelVersion
	}
	if r.ResponseID != "" {
		a.id = r.ResponseID
	}
	if u := r.UsageMetadata; u != nil { // each usage includes the previous ones
		input := tokens(u.PromptTokenCount) + tokens(u.ToolUsePromptTokenCount)
		a.usage = llm.Usage{
			Input:  input,
			Cached: min(tokens(u.CachedContentTokenCount), input),
			Output: tokens(u.CandidatesTokenCount) + tokens(u.ThoughtsTokenCount), Reasoning: tokens(u.ThoughtsTokenCount),
		}
	}
	if f := r.PromptFeedback; f != nil && f.BlockReason != "" && f.BlockReason != genai.BlockedReasonUnspecified {
		a.block, a.why = f.BlockReason, f.BlockReasonMessage
	}
	text := ""
	for _, c := range r.Candidates {
		if c == nil || c.Index != 0 {
			continue
		}
		a.candidate = true
		if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
			a.finish, a.why = c.FinishReason, a.x.finishMessage
		}
		if c.Content != nil {
			for _, p := range c.Content.Parts {
				text += a.part(p)
			}
		}
	}
	return text
}

// tokens returns a count, which may be invalid, as an int.
func tokens(n int32) int { return int(max(n, 0)) }

// part returns the text that p adds to the answer now. Thoughts and unknown parts add none.
func (a *answer) part(p *genai.Part) string {
	switch {
	case p == nil || p.Thought || a.called:
		return ""
	case a.tools && p.FunctionCall != nil:
		a.called, a.wrote = true, true
		return a.x.arguments
	case p.Text == "":
		return ""
	}
	a.wrote = a.wrote || strings.TrimSpace(p.Text) != ""
	if a.tools {
		a.hold(p.Text)
		return ""
	}
	return p.Text
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
func (a *answer) complete() bool { return a.finish != "" || a.block != "" }

// verdict returns what is wrong with an answer whose stream has ended properly, or nil.
func (a *answer) verdict() *llm.Error {
	fail := func(kind error, format string, args ...any) *llm.Error {
		e := &llm.Error{Kind: kind, Code: string(a.finish), Message: fmt.Sprintf(format, args...)}
		if a.why != "" {
			e.Message += ": " + a.why
		}
		return e
	}
	if a.block != "" {
		e := fail(llm.ErrRefused, "a filter did not let the prompt through")
		e.Code = string(a.block)
		return e
	}
	words, kind := google.Ending(string(a.finish))
	switch {
	case a.finish == "" && a.some && !a.candidate:
		return fail(llm.ErrEmpty, "a response without a candidate")
	case a.finish == "":
		return fail(llm.ErrTruncated, "the stream ended without a finish reason")
	case !a.wrote && (kind == nil || errors.Is(kind, llm.ErrTruncated)): // an empty answer was not cut off
		return fail(llm.ErrEmpty, "no text")
	case kind != nil:
		return fail(kind, "%s", words)
	}
	return nil
}
