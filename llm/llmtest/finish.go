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

// fallsShort has the endpoint send r, which is no complete answer, and checks that the call fails with one of these errors and is not repeated: what was
// yielded is a beginning of the text, and the error has the usage of r.
func (e *env) fallsShort(r *Reply, want ...error) (*answer, *llm.Error) {
	e.Helper()
	c, s := e.serve(r)
	a := e.ask(c, request("hi"))
	err := e.wantError(a, want...)
	e.wantStart(a, strings.Join(r.Pieces, ""))
	if r.Usage == spent {
		e.wantSpent(a.err)
	}
	e.wantOnce(s)
	return a, err
}

var finishCases = []testCase{
	{name: "length", run: func(e *env) {
		e.fallsShort(&Reply{Pieces: []string{"Once ", "upon"}, Finish: Length, Usage: spent}, llm.ErrLength)
	}},
	{name: "length of thoughts", run: func(e *env) {
		e.fallsShort(&Reply{Thoughts: "Well, let me see", Finish: Length, Usage: spent}, llm.ErrLength)
	}},
	{name: "filtered", run: func(e *env) {
		e.fallsShort(&Reply{Pieces: []string{"Once ", "upon"}, Finish: Filtered, Usage: spent}, llm.ErrRefused)
	}},
	{name: "filtered at once", run: func(e *env) { e.fallsShort(&Reply{Finish: Filtered, Usage: spent}, llm.ErrRefused) }},
	{name: "refused", needs: []Feature{NoRefusal}, run: func(e *env) {
		a, err := e.fallsShort(&Reply{Pieces: []string{"That is ", "nothing for me."}, Finish: Refused}, llm.ErrRefused)
		if !strings.Contains(err.Message, "That is nothing for me.") {
			e.Errorf("the error has the message %q, want the model's words", err.Message)
		}
		e.wantStart(a, "")
	}},
	{name: "blocked prompt", needs: []Feature{NoPromptBlock}, run: func(e *env) { e.fallsShort(&Reply{Finish: Blocked}, llm.ErrRefused) }},
	{name: "unreadable call", run: func(e *env) { e.fallsShort(&Reply{Finish: BadCall, Usage: spent}, llm.ErrEmpty) }},
	{name: "nothing", run: func(e *env) { e.fallsShort(&Reply{Finish: Nothing, Usage: spent}, llm.ErrEmpty) }},
	{name: "empty", run: func(e *env) { e.fallsShort(&Reply{Usage: spent}, llm.ErrEmpty) }},
	{name: "thoughts alone", run: func(e *env) { e.fallsShort(&Reply{Thoughts: "Better say nothing.", Usage: spent}, llm.ErrEmpty) }},
	{name: "never seen", run: func(e *env) { e.says(&Reply{Pieces: []string{"Hel", "lo."}, Finish: NeverSeen}) }},
}
