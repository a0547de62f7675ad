package llmtest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// wantOnce checks that the server was called once: clients do not retry.
func (e *env) wantOnce(s *server) {
	e.Helper()
	if n := s.count(); n != 1 {
		e.Errorf("the server got %d calls, want 1", n)
	}
}

// words is the endpoint's message for a fault.
const words = "the endpoint's explanation"

// fails makes the endpoint return f, and returns the resulting error.
func (e *env) fails(f Fault, want error) *llm.Error {
	e.Helper()
	if f.Message == "" && f.Kind == Plain {
		f.Message = words
	}
	_, err := e.fallsShort(&Reply{Error: &f}, want)
	if err.Status != f.Status && (!e.lacks(NoStatus) || err.Status != 0) {
		e.Errorf("the error has the status %d, want %d", err.Status, f.Status)
	}
	if err.Message == "" || !strings.Contains(err.Message, f.Message) {
		e.Errorf("the error has the message %q, want %q", err.Message, f.Message)
	}
	return err
}

// statuses are the HTTP statuses of failures.
var statuses = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout,
	http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529,
}

// errorCases are the cases of errors that the endpoint reports.
func errorCases(w Wire) []testCase {
	var cases []testCase
	for _, status := range statuses {
		c := testCase{name: fmt.Sprint("status ", status), run: func(e *env) {
			if err := e.fails(Fault{Status: status}, llm.KindOfStatus(status)); err.RetryAfter != 0 {
				e.Errorf("the error has RetryAfter %v, but the endpoint said none", err.RetryAfter)
			}
		}}
		if status == http.StatusRequestEntityTooLarge {
			c.needs = []Feature{NoStatus} // no other code corresponds
		}
		cases = append(cases, c)
	}
	if w.Down != nil {
		cases = append(cases, testCase{name: "down", run: func(e *env) {
			a := e.ask(w.Down(e.T, Options{Key: key}), request("hi"))
			if err := e.wantError(a, llm.ErrUnavailable); err.Status != 0 || err.Message == "" {
				e.Errorf("the error has the status %d and the message %q, want 0 and what happened", err.Status, err.Message)
			}
			e.wantNoKey(a.err)
		}})
	}
	return append(cases,
		testCase{name: "quota", run: func(e *env) { e.fails(Fault{Kind: Quota, Status: 429}, llm.ErrQuota) }},
		testCase{name: "prompt too long", run: func(e *env) { e.fails(Fault{Kind: TooLong, Status: 400}, llm.ErrTooLong) }},
		testCase{name: "no such model", run: func(e *env) { e.fails(Fault{Kind: Unknown, Status: 404}, llm.ErrNoModel) }},
		testCase{name: "long message", run: func(e *env) {
			e.failsUncleanly(Fault{Status: 503, Message: strings.Repeat("Try again later. ", 4000)}, llm.ErrUnavailable)
		}},
		testCase{name: "unclean message", run: func(e *env) {
			e.failsUncleanly(Fault{Status: 400, Message: "\x1b]52;c;aGk=\a\x1b[31mred\r\n\n\u202etext\x00"}, llm.ErrBadRequest)
		}},
		testCase{name: "unavailable after pieces", run: func(e *env) {
			e.failsAfter(Fault{Status: 503, Message: words}, llm.ErrUnavailable)
		}},
		testCase{name: "rate limit after pieces", run: func(e *env) {
			e.failsAfter(Fault{Status: 429, Message: words}, llm.ErrRateLimited)
		}},
		testCase{name: "usage after pieces", run: func(e *env) {
			e.fallsShort(&Reply{Pieces: []string{"Once ", "upon"}, Error: &Fault{Status: 503}, Usage: spent, Early: true}, llm.ErrUnavailable)
		}},
		testCase{name: "quota after pieces", run: func(e *env) { e.failsAfter(Fault{Kind: Quota, Status: 429}, llm.ErrQuota) }},
		testCase{name: "usable after an error", run: usableAfterErrors},
	)
}

// failsUncleanly makes the endpoint return f with a message that must not be shown unchanged; wantError checks how it is shown.
func (e *env) failsUncleanly(f Fault, want error) {
	e.Helper()
	c, _ := e.serve(&Reply{Error: &f})
	e.wantError(e.ask(c, request("hi")), want)
}

// failsAfter makes the endpoint return f in the middle of an answer.
func (e *env) failsAfter(f Fault, want error) {
	e.Helper()
	a, err := e.fallsShort(&Reply{Pieces: []string{"Once ", "upon"}, Error: &f}, want)
	if got := a.text(); got != "Once upon" {
		e.Errorf("before the error came %q, want %q", got, "Once upon")
	}
	if err.Message == "" || !strings.Contains(err.Message, f.Message) {
		e.Errorf("the error has the message %q, want %q", err.Message, f.Message)
	}
}

// usableAfterErrors fails in many ways, and calls the same client again after each.
func usableAfterErrors(e *env) {
	replies := []*Reply{
		{Error: &Fault{Status: 401}},
		{Error: &Fault{Status: 503}},
		{Pieces: []string{"Once"}, Error: &Fault{Status: 503}},
		{Pieces: []string{"Once"}, Cut: true},
		{Cut: true},
		{Pieces: []string{"Once"}, Finish: Length},
		{Pieces: []string{"Once"}, Finish: Filtered},
		{},
	}
	if !e.lacks(NoGarbage) {
		replies = append(replies, &Reply{Garbage: garbage[0].body})
	}
	c, s := e.serve(&Reply{})
	for i, reply := range replies {
		s.say(reply)
		if a := e.ask(c, request("hi")); len(a.done) > 0 {
			e.Errorf("failure %d: Generate = %q, want an error", i, a.text())
		}
		s.say(&Reply{Pieces: []string{"Hel", "lo."}})
		e.wantText(e.ask(c, request("hi")), "Hello.")
	}
}
