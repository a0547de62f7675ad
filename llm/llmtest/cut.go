package llmtest

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

var cutCases = []testCase{
	{name: "with pieces", run: func(e *env) { e.cutShort(&Reply{Pieces: []string{"Once ", "upon ", "a"}, Cut: true}) }},
	{name: "after one piece", run: func(e *env) { e.cutShort(&Reply{Pieces: []string{"Once"}, Cut: true}) }},
	{name: "in good order", run: func(e *env) { e.cutShort(&Reply{Pieces: []string{"Once ", "upon ", "a"}, Cut: true, Orderly: true}) }},
	{name: "usage", run: func(e *env) {
		e.fallsShort(&Reply{Pieces: []string{"Once ", "upon ", "a"}, Cut: true, Usage: spent, Early: true}, llm.ErrTruncated)
	}},
	// Not every protocol distinguishes this from an unreachable server.
	{name: "without pieces", run: func(e *env) { e.fallsShort(&Reply{Cut: true}, llm.ErrTruncated, llm.ErrUnavailable) }},
	{name: "after thoughts", run: func(e *env) {
		e.fallsShort(&Reply{Thoughts: "Let me see.", Cut: true}, llm.ErrTruncated, llm.ErrUnavailable)
	}},
	{name: "inside of a frame", needs: []Feature{NoCutFrame}, run: func(e *env) {
		e.fallsShort(&Reply{Pieces: []string{"Once ", "upon ", "a"}, CutFrame: true}, llm.ErrTruncated)
	}},
	{name: "inside of the first frame", needs: []Feature{NoCutFrame}, run: func(e *env) {
		e.fallsShort(&Reply{CutFrame: true}, llm.ErrTruncated, llm.ErrUnavailable)
	}},
}

// cutShort checks that the whole text of r, which is cut, is yielded before the error.
func (e *env) cutShort(r *Reply) {
	e.Helper()
	a, _ := e.fallsShort(r, llm.ErrTruncated)
	if got, want := a.text(), strings.Join(r.Pieces, ""); got != want {
		e.Errorf("before the cut came %q, want %q", got, want)
	}
}
