package llmtest

import (
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// wantRetryAfter makes the endpoint ask for a wait of d, and checks that the error has it, less at most less.
func (e *env) wantRetryAfter(status int, form RetryForm, d, less time.Duration) {
	e.Helper()
	err := e.fails(Fault{Status: status, Form: form, RetryAfter: d}, llm.KindOfStatus(status))
	if err.RetryAfter > d || err.RetryAfter < d-less {
		e.Errorf("status %d, %s: RetryAfter = %v, want %v", status, form, err.RetryAfter, d)
	}
}

var retryCases = []testCase{
	{name: "seconds", needs: []Feature{NoRetryAfter}, run: func(e *env) {
		e.wantRetryAfter(429, RetrySeconds, 7*time.Second, 0)
		e.wantRetryAfter(503, RetrySeconds, 7*time.Second, 0)
	}},
	{name: "date", needs: []Feature{NoRetryAfter}, run: func(e *env) {
		e.wantRetryAfter(429, RetryDate, time.Minute, 15*time.Second) // a date has whole seconds, and some may pass
	}},
	{name: "millis", needs: []Feature{NoRetryAfter}, run: func(e *env) {
		e.wantRetryAfter(429, RetryMillis, 1500*time.Millisecond, 0)
	}},
	{name: "info", needs: []Feature{NoRetryInfo}, run: func(e *env) {
		e.wantRetryAfter(429, RetryInfo, 2500*time.Millisecond, 0)
		e.wantRetryAfter(503, RetryInfo, 2500*time.Millisecond, 0)
	}},
	{name: "reset", needs: []Feature{NoRetryAfter, NoReset}, run: func(e *env) {
		e.wantRetryAfter(429, RetryReset, 4*time.Second, 0)
		e.wantRetryAfter(429, RetryReset, 90*time.Second, 0) // "1m30s"
	}},
	{name: "reset of tokens", needs: []Feature{NoRetryAfter, NoReset}, run: func(e *env) {
		e.wantRetryAfter(429, RetryTokens, 6*time.Second, 0)
	}},
}
