package llmtest

import "github.com/cortex-orchestrator/cortex/llm"

var cutCases = []testCase{
	{name: "with pieces", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon ", "a"}, Cut: true})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrTruncated)
		if got := a.text(); got != "Once upon a" {
			e.Errorf("before the cut came %q, want %q", got, "Once upon a")
		}
		e.wantOnce(s)
	}},
	{name: "after one piece", run: func(e *env) {
		c, _ := e.serve(&Reply{Pieces: []string{"Once"}, Cut: true})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrTruncated)
		if got := a.text(); got != "Once" {
			e.Errorf("before the cut came %q, want %q", got, "Once")
		}
	}},
	{name: "in good order", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon ", "a"}, Cut: true, Orderly: true})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrTruncated)
		if got := a.text(); got != "Once upon a" {
			e.Errorf("before the cut came %q, want %q", got, "Once upon a")
		}
		e.wantOnce(s)
	}},
	{name: "usage", run: func(e *env) {
		c, _ := e.serve(&Reply{Pieces: []string{"Once ", "upon ", "a"}, Cut: true, Usage: spent, Early: true})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrTruncated)
		e.wantSpent(a.err)
	}},
	{name: "without pieces", run: func(e *env) {
		c, s := e.serve(&Reply{Cut: true})
		// Not every protocol distinguishes this from an unreachable server.
		e.wantError(e.ask(c, request("hi")), llm.ErrTruncated, llm.ErrUnavailable)
		e.wantOnce(s)
	}},
	{name: "after thoughts", run: func(e *env) {
		c, _ := e.serve(&Reply{Thoughts: "Let me see.", Cut: true})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrTruncated, llm.ErrUnavailable)
		e.wantStart(a, "")
	}},
	{name: "inside of a frame", needs: []Feature{NoCutFrame}, run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon ", "a"}, CutFrame: true})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrTruncated)
		e.wantStart(a, "Once upon a")
		e.wantOnce(s)
	}},
	{name: "inside of the first frame", needs: []Feature{NoCutFrame}, run: func(e *env) {
		c, _ := e.serve(&Reply{CutFrame: true})
		e.wantError(e.ask(c, request("hi")), llm.ErrTruncated, llm.ErrUnavailable)
	}},
}
