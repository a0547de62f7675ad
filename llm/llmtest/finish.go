package llmtest

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// spent is the usage of answers that are unusable.
var spent = llm.Usage{Input: 1234, Cached: 1024, Output: 56}

// wantSpent checks that the error of a call has the usage.
func (e *env) wantSpent(err error) {
	e.Helper()
	if got := llm.UsageOf(err); got != spent {
		e.Errorf("the error has the usage %+v, want %+v", got, spent)
	}
}

// wantStart checks that the yielded text is a beginning of what was sent.
func (e *env) wantStart(a *answer, sent string) {
	e.Helper()
	if got := a.text(); !strings.HasPrefix(sent, got) {
		e.Errorf("before the error came %q, want a start of %q", brief(got), brief(sent))
	}
}

var finishCases = []testCase{
	{name: "length", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Finish: Length, Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrLength)
		e.wantStart(a, "Once upon")
		e.wantSpent(a.err)
		e.wantOnce(s)
	}},
	{name: "length of thoughts", run: func(e *env) {
		c, _ := e.serve(&Reply{Thoughts: "Well, let me see", Finish: Length, Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrLength)
		e.wantStart(a, "")
		e.wantSpent(a.err)
	}},
	{name: "filtered", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Finish: Filtered, Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrRefused)
		e.wantStart(a, "Once upon")
		e.wantSpent(a.err)
		e.wantOnce(s)
	}},
	{name: "filtered at once", run: func(e *env) {
		c, _ := e.serve(&Reply{Finish: Filtered, Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrRefused)
		e.wantSpent(a.err)
	}},
	{name: "refused", needs: []Feature{NoRefusal}, run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"That is ", "nothing for me."}, Finish: Refused})
		a := e.ask(c, request("hi"))
		if err := e.wantError(a, llm.ErrRefused); !strings.Contains(err.Message, "That is nothing for me.") {
			e.Errorf("the error has the message %q, want the model's words", err.Message)
		}
		e.wantStart(a, "")
		e.wantOnce(s)
	}},
	{name: "blocked prompt", needs: []Feature{NoPromptBlock}, run: func(e *env) {
		c, s := e.serve(&Reply{Finish: Blocked})
		e.wantError(e.ask(c, request("hi")), llm.ErrRefused)
		e.wantOnce(s)
	}},
	{name: "unreadable call", run: func(e *env) {
		c, _ := e.serve(&Reply{Finish: BadCall, Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrEmpty)
		e.wantSpent(a.err)
	}},
	{name: "nothing", run: func(e *env) {
		c, s := e.serve(&Reply{Finish: Nothing, Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrEmpty)
		e.wantSpent(a.err)
		e.wantOnce(s)
	}},
	{name: "empty", run: func(e *env) {
		c, s := e.serve(&Reply{Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrEmpty)
		e.wantSpent(a.err)
		e.wantOnce(s)
	}},
	{name: "thoughts alone", run: func(e *env) {
		c, _ := e.serve(&Reply{Thoughts: "Better say nothing.", Usage: spent})
		a := e.ask(c, request("hi"))
		e.wantError(a, llm.ErrEmpty)
		e.wantSpent(a.err)
		e.wantStart(a, "")
	}},
	{name: "never seen", run: func(e *env) {
		c, _ := e.serve(&Reply{Pieces: []string{"Hel", "lo."}, Finish: NeverSeen})
		e.wantText(e.ask(c, request("hi")), "Hello.")
	}},
}
