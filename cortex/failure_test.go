package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestFailuresAreExplained checks that whatever a model does, the user reads on one line what happened and what to do, followed by
// the vendor's own text, cleaned.
func TestFailuresAreExplained(t *testing.T) {
	vendor := func(kind error) error {
		return &llm.Error{Kind: kind, Provider: "openai", Model: "m-1", Status: 418, Message: "the\x1b[31m\nvendor's words"}
	}
	const said = " (418): the vendor's words)"
	for _, test := range []struct {
		err  error
		want string // what to do
		end  string
	}{
		{vendor(llm.ErrAuth), "Set another key; `cortex llm check openai` tries it.", said},
		{vendor(llm.ErrQuota), "Raise it there, or choose another model.", said},
		{vendor(llm.ErrNoModel), "Choose another one; `cortex llm check openai` tries it.", said},
		{vendor(llm.ErrRefused), "Say it in other words", said},
		{vendor(llm.ErrLength), "Ask for less at once", said},
		{vendor(llm.ErrRateLimited), "Wait a minute and ask again.", said},
		{&llm.Error{Kind: llm.ErrRateLimited, Provider: "openai", RetryAfter: time.Hour}, "Ask again in 1h0m0s, or choose another model.", ")"},
		{fmt.Errorf("after 4 attempts: %w", vendor(llm.ErrUnavailable)), "Ask again in a minute; `cortex llm check openai`", said},
		{vendor(llm.ErrTruncated), "broke off. Ask again.", said},
		{vendor(llm.ErrEmpty), "answered nothing. Ask again", said},
		{vendor(llm.ErrBadRequest), "`cortex llm check openai` tries the settings.", said},
		{vendor(llm.ErrTooLong), "Begin again with /new", said},
		{vendor(llm.ErrBudget), "have the budget raised", said},
		{fmt.Errorf("after 2 corrections: %w: no JSON", llm.ErrInvalidDecision), "choose a more capable model", "(after 2 corrections: invalid decision: no JSON)"},
		{errors.Join(vendor(llm.ErrUnavailable), vendor(llm.ErrRateLimited)), "Wait a minute", said},
		{context.DeadlineExceeded, "took too long. Ask again", "(context deadline exceeded)"},
		{errors.New("a\nb"), "Ask again; Cortex's log", "(a b)"},
		{errors.New(strings.Repeat("x", 1<<20)), "Ask again; Cortex's log", "xx…)"},
	} {
		t.Run(fmt.Sprintf("%.40s", test.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, decideFunc(func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { return nil, test.err }))
				w.say("m1", "go")
				got := w.answers()["m1"]
				if !strings.HasPrefix(got, "I could not decide what to do: ") || !strings.Contains(got, test.want) || !strings.HasSuffix(got, test.end) {
					t.Errorf("answer %q, want one with %q that ends with %q", got, test.want, test.end)
				}
				if strings.ContainsAny(got, "\n\r\x1b") || len(got) > 1000 {
					t.Errorf("answer %.1000q of %d bytes, want one short line", got, len(got))
				}
			})
		})
	}
}

// TestSlowDecisionEnds checks that a model which never answers delays only its own conversation, by two minutes.
func TestSlowDecisionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			if turn.ContextID == "slow" {
				<-ctx.Done()
				return nil, &llm.Error{Kind: llm.ErrUnavailable, Provider: "p", Usage: each, Err: ctx.Err()}
			}
			return respond("quick"), nil
		}))
		began := time.Now()
		slow := userEvent("s1", "slow")
		slow.ContextID = "slow"
		w.publish(slow)
		for i := range 5 {
			w.say(fmt.Sprint("m", i), "quick")
			w.wantAnswer(fmt.Sprint("m", i), "quick")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the others took %v", took)
		}
		pass(2 * time.Minute)
		conv, err := storage.Load(t.Context(), w.store, "", "slow")
		if err != nil {
			t.Fatal(err)
		}
		const want = "I could not decide what to do: the model took too long. Ask again; if it stays slow, choose another model or raise the time limit. (no decision within 2m0s)"
		if got := conv.Turns[0].Answer; got != want || conv.Usage != each {
			t.Errorf("answer %q for %+v, want %q for %+v", got, conv.Usage, want, each)
		}
	})
}
