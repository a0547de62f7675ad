package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"google.golang.org/genai"

	"github.com/cortex-orchestrator/cortex/llm"
)

// outcome returns the error of a call, or nil. x has what was sent and received, a the answer, and failed is the SDK's error.
func (c *Client) outcome(ctx context.Context, x *exchange, a *answer, failed error) error {
	var e *llm.Error
	switch {
	case x.fault != nil && ctx.Err() == nil:
		status := x.status
		if status >= 200 && status < 300 { // in the middle of the stream
			status = x.fault.Code
		}
		f := x.fault
		e = f.Explain(status, x.header, time.Now())
		e.Err = genai.APIError{Code: f.Code, Message: f.Message, Status: f.Status, Details: f.Details}
	case a.complete(): // later errors do not matter
		e = a.verdict()
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", c.name, c.model, ctx.Err())
	case x.stream.Broken() != nil:
		e = x.stream.Broken()
	case failed != nil:
		e = x.unsent(failed)
	default:
		e = a.verdict()
	}
	if e == nil {
		return nil
	}
	e.Provider, e.Model, e.Usage = c.name, c.model, a.usage
	e.RequestID = cmp.Or(e.RequestID, a.id)
	// The call's context has not ended, whatever the error says: it is a timeout of the HTTP client.
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		e.Err = errors.New(e.Err.Error())
	}
	return e.Redact(c.key, x.token)
}

// unsent returns the error of a call that failed without a response of the endpoint.
func (x *exchange) unsent(err error) *llm.Error {
	e := &llm.Error{Kind: llm.ErrUnavailable, Message: strings.TrimPrefix(err.Error(), "doRequest: error sending request: "), Err: err}
	var refused *auth.Error
	var sending *url.Error
	var odd *json.UnmarshalTypeError
	switch {
	case !x.sent:
		e.Kind = llm.ErrBadRequest
	case errors.As(err, &odd): // the SDK's message contains the whole answer
		e.Err = fmt.Errorf("%w: %w", errUnreadable, odd)
		e.Message = e.Err.Error()
	case x.status != 0:
	case errors.As(err, &refused) && !refused.Temporary():
		e.Kind = llm.ErrAuth
		e.Message = "the credentials give no token: run `gcloud auth application-default login` again: " + fmt.Sprint(refused)
	case errors.As(err, &sending):
		e.Message = "not reached: " + fmt.Sprint(sending.Err)
	}
	return e
}
