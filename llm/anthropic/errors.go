package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/sse"
)

// fault is an error in Anthropic's JSON: {"type": "error", "error": {"type": "…", "message": "…"}, "request_id": "…"}.
type fault struct {
	kind      string // the type of the error
	message   string
	requestID string
}

// faultIn returns the error in a JSON body, or nil.
func faultIn(body []byte) *fault {
	var said struct {
		Error     json.RawMessage `json:"error"`
		RequestID any             `json:"request_id"`
	}
	if json.Unmarshal(body, &said) != nil || len(said.Error) == 0 || string(said.Error) == "null" {
		return nil
	}
	f := &fault{}
	f.requestID, _ = said.RequestID.(string)
	if json.Unmarshal(said.Error, &f.message) == nil { // a proxy's
		return f
	}
	var inner struct{ Type, Message any }
	_ = json.Unmarshal(said.Error, &inner)
	f.kind, _ = inner.Type.(string)
	f.message, _ = inner.Message.(string)
	return f
}

// faultOf returns the error in a body, which need not be Anthropic's: proxies may answer instead.
func faultOf(body []byte) *fault {
	if f := faultIn(body); f != nil {
		return f
	}
	return &fault{message: sse.Excerpt(body)}
}

// kinds are the types of errors of the API's documentation, with their status.
var kinds = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      529,
}

var (
	// The API's messages, with status 400, for a prompt that does not fit.
	tooLong = regexp.MustCompile(`(?i)prompt is too long|exceeds? (the )?(context|model'?s) (limit|window)|input is too long|too many total text bytes`)

	// The API's messages, with status 400 or 429, for what waiting for minutes does not solve.
	usedUp = regexp.MustCompile(`(?i)credit balance is too low|usage limits|spend(ing)? (limit|cap)`)
)

// explain converts f to an error. status is the HTTP status; 0 within a stream.
func (f *fault) explain(status int, header http.Header) *llm.Error {
	e := &llm.Error{
		Status: status, Code: f.kind, Message: f.message, RetryAfter: llm.RetryAfter(header, time.Now()),
		RequestID: cmp.Or(f.requestID, header.Get("Request-Id")),
	}
	if status == 0 {
		e.RetryAfter = 0 // it was sent before the error
		status = cmp.Or(kinds[f.kind], http.StatusInternalServerError)
	}
	e.Kind = llm.KindOfStatus(status)
	switch {
	case status >= 300 && status < 400:
		e.Message = "the endpoint redirects to another address, which is not followed, since the key would go with it: set base_url to the right one"
	case status < 500 && usedUp.MatchString(f.message):
		e.Kind = llm.ErrQuota
	case errors.Is(e.Kind, llm.ErrBadRequest) && tooLong.MatchString(f.message):
		e.Kind = llm.ErrTooLong
	}
	e.Message = cmp.Or(e.Message, http.StatusText(status), "no reason was given")
	return e
}

// outcome returns the error of a call, or nil. x has what was sent and received, a the answer, and failed is the SDK's error.
func (c *Client) outcome(ctx context.Context, x *exchange, a *answer, failed error) error {
	var e *llm.Error
	switch {
	case ctx.Err() != nil && !a.complete():
		return fmt.Errorf("%s %s: %w", c.cfg.Name, c.cfg.Model, ctx.Err())
	case x.failed != nil:
		e = x.failed
	case a.complete(): // later errors do not matter
		e = a.verdict()
	case x.stream.Broken() != nil:
		e = x.stream.Broken()
	case failed != nil && !x.sent:
		e = &llm.Error{Kind: llm.ErrBadRequest, Message: failed.Error(), Err: failed}
	case failed != nil:
		e = &llm.Error{Kind: llm.ErrUnavailable, Message: "the answer is not of the form that it should have: " + failed.Error(), Err: failed}
	default:
		e = a.verdict()
	}
	if e == nil {
		return nil
	}
	e.Provider, e.Model, e.Usage = c.cfg.Name, c.cfg.Model, a.usage
	e.RequestID = cmp.Or(e.RequestID, x.header.Get("Request-Id"), a.id)
	// The call's context has not ended, whatever the error says: it is a timeout of the HTTP client.
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		e.Err = errors.New(e.Err.Error())
	}
	return e.Redact(c.bearer.Hide(c.secrets)...)
}
