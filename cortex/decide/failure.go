package decide

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

var (
	errCanceled = errors.New("canceled by the user") // the cause of a context that a Cancel has ended
	errSlow     = errors.New("no decision within")   // the cause of a context that the time limit has ended
)

// advice maps the errors of models to what they mean for a user, and what to do.
var advice = []struct {
	err  error
	text string
}{
	{errSlow, "the model took too long. Ask again; if it stays slow, choose another model or raise the time limit."},
	{llm.ErrAuth, "the model's endpoint does not accept the key, or not for this model. Set another key; `cortex llm check NAME` tries it."},
	{llm.ErrQuota, "the quota at the model's provider is used up, so asking again does not help. Raise it there, or choose another model."},
	{llm.ErrNoModel, "the endpoint does not know this model. Choose another one; `cortex llm check NAME` tries it."},
	{llm.ErrRefused, "the model, or a filter before it, refuses to answer this. Say it in other words, or begin another conversation with /new."},
	{llm.ErrLength, "the model's answer was longer than it may be. Ask for less at once, or raise the limit of tokens."},
	{llm.ErrInvalidDecision, "what the model answered cannot be used. Ask again, in other words; if it happens often, choose a more capable model."},
	{llm.ErrRateLimited, "the model's endpoint gets too many requests. Wait a minute and ask again."},
	{llm.ErrUnavailable, "the model cannot be reached, or is overloaded. Ask again in a minute; `cortex llm check NAME` tells where it fails."},
	{llm.ErrTruncated, "the model's answer broke off. Ask again."},
	{llm.ErrEmpty, "the model answered nothing. Ask again, in other words."},
	{llm.ErrBadRequest, "the model's endpoint does not accept the request, most likely for a setting. `cortex llm check NAME` tries the settings."},
	{context.DeadlineExceeded, "the model took too long. Ask again; if it stays slow, choose another model or raise the time limit."},
}

// explain returns one line for the user: why d failed with err, and what to do. The provider's message comes last.
func (d *decision) explain(err error) string {
	if words, ok := errors.AsType[conversation.Failure](err); ok {
		return string(words)
	}
	what := "something went wrong. Ask again; Cortex's log may tell more."
	switch {
	case errors.Is(err, llm.ErrTooLong) && len(d.seen.History) > 0:
		what = "this conversation is too long for the model. Begin another one with /new, or choose a model with a larger window."
	case errors.Is(err, llm.ErrTooLong):
		what = "what the model has to read for this request alone (the message, the agents, and what they answered) is too long for it. " +
			"Begin again with /new and a shorter request, or choose a model with a larger window."
	case errors.Is(err, llm.ErrBudget) && len(d.accounts) > 0:
		d.entry.Measured.Exhausted = d.accounts.Tightest(d.paid)
		return d.accounts.TooLittle(d.paid)
	case errors.Is(err, llm.ErrBudget):
		what = "the budget for it is used up. Begin another conversation with /new, or have the budget raised."
	default:
		for _, a := range advice {
			if errors.Is(err, a.err) {
				what = a.text
				break
			}
		}
	}
	if vendor, ok := errors.AsType[*llm.Error](err); ok {
		if vendor.Provider != "" {
			what = strings.ReplaceAll(what, "check NAME", "check "+prompt.Clean(vendor.Provider, 64))
		}
		if vendor.RetryAfter >= time.Minute && errors.Is(err, llm.ErrRateLimited) {
			what = strings.ReplaceAll(what, "Wait a minute and ask again", "Ask again in "+vendor.RetryAfter.Round(time.Second).String()+", or choose another model")
		}
	}
	return "I could not decide what to do: " + what + " (" + conversation.Explain(err) + ")"
}

// panicError is a panic of a plugged-in component.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("the decider panicked: %v", p.value) }

// recovered is deferred, and converts a panic to an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = &panicError{r, debug.Stack()}
	}
}
