package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"google.golang.org/genai"

	"github.com/cortex-orchestrator/cortex/llm"
)

// outcome returns the error that a call ends with, or nil: x is what went over the wire, a what came of the answer, failed
// what the SDK says.
func (c *Client) outcome(ctx context.Context, x *exchange, a *answer, failed error) error {
	var e *llm.Error
	switch {
	case x.fault != nil && ctx.Err() == nil:
		e = x.error(time.Now())
	case a.complete(): // whatever came behind it
		e = a.verdict()
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", c.name, c.model, ctx.Err())
	case x.err != nil:
		e = broken(x.err)
	case failed != nil:
		e = x.unsent(failed)
	default:
		e = a.verdict()
	}
	if e == nil {
		return nil
	}
	e.Provider, e.Model, e.Usage = c.name, c.model, a.usage
	if e.RequestID == "" {
		e.RequestID = a.id
	}
	// The context of the call has not ended, whatever the error says: it is that of the HTTP client.
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		e.Err = errors.New(e.Err.Error())
	}
	return e.Redact(c.key, x.token)
}

// broken is a body that ended before its end.
func broken(err error) *llm.Error {
	e := &llm.Error{Kind: llm.ErrTruncated, Message: err.Error(), Err: err}
	var foreign *noEvents
	if errors.Is(err, errTooBig) || errors.As(err, &foreign) {
		e.Kind = llm.ErrUnavailable
	}
	return e
}

// unsent is an error of the SDK without a word of the endpoint.
func (x *exchange) unsent(err error) *llm.Error {
	e := &llm.Error{Kind: llm.ErrUnavailable, Message: strings.TrimPrefix(err.Error(), "doRequest: error sending request: "), Err: err}
	var refused *auth.Error
	var sending *url.Error
	var odd *json.UnmarshalTypeError
	switch {
	case !x.sent:
		e.Kind = llm.ErrBadRequest
	case errors.As(err, &odd): // the SDK's words have all of the answer in them
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

// error returns what the endpoint says went wrong.
func (x *exchange) error(now time.Time) *llm.Error {
	f := x.fault
	status := x.status
	if status >= 200 && status < 300 { // in the middle of the stream
		status = f.Code
	}
	e := &llm.Error{
		Kind: kindOf(f, status), Status: status, Code: f.Status, Message: f.Message, Err: *f,
		RetryAfter: max(llm.RetryAfter(x.header, now), retryDelay(f)),
		RequestID:  x.header.Get("X-Request-Id"),
	}
	switch {
	case status >= 300 && status < 400:
		e.Message = "the endpoint redirects to another address, which is not followed, since the key would go with it: set base_url to the right one"
	case e.Message == "":
		e.Message = http.StatusText(status)
	}
	if id, ok := detail(f, "RequestInfo")["requestId"].(string); ok {
		e.RequestID = id
	}
	return e
}

func kindOf(f *genai.APIError, status int) error {
	switch f.Status {
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return llm.ErrAuth
	case "NOT_FOUND":
		return llm.ErrNoModel
	case "RESOURCE_EXHAUSTED":
		status = http.StatusTooManyRequests
	case "INVALID_ARGUMENT":
		if reason, _ := detail(f, "ErrorInfo")["reason"].(string); reason == "API_KEY_INVALID" {
			return llm.ErrAuth
		}
	case "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED":
		return llm.ErrUnavailable
	}
	switch kind := llm.KindOfStatus(status); {
	case errors.Is(kind, llm.ErrRateLimited) && isUsedUp(f):
		return llm.ErrQuota
	case errors.Is(kind, llm.ErrBadRequest) && tooLong.MatchString(f.Message):
		return llm.ErrTooLong
	case errors.Is(kind, llm.ErrBadRequest) && notServed.MatchString(f.Message):
		return llm.ErrAuth
	default:
		return kind
	}
}

// What Google says of a prompt that does not fit: at the Gemini API, at Vertex AI, and of more than fits into a request.
var tooLong = regexp.MustCompile(`(?i)token count.*(exceeds|only supports up to)|payload size exceeds the limit`)

// What Google says of an account that it does not serve, with 400: for where it is, or for want of a way to pay.
var notServed = regexp.MustCompile(`(?i)user location is not supported|enable billing`)

// What Google says of a quota that is not one of the next minutes. That the plan and the billing should be looked at it says
// of each.
var usedUp = regexp.MustCompile(`(?i)\blimit: 0\b|\bper (day|month)\b|spending cap|credits? (are|is) (depleted|used up)|billing account`)

// isUsedUp tells a quota that waiting does not help with from a rate.
func isUsedUp(f *genai.APIError) bool {
	if usedUp.MatchString(f.Message) {
		return true
	}
	violations, _ := detail(f, "QuotaFailure")["violations"].([]any)
	for _, v := range violations {
		v, _ := v.(map[string]any)
		id, _ := v["quotaId"].(string)
		words, _ := v["description"].(string)
		if strings.Contains(id, "PerDay") || strings.Contains(id, "PerMonth") || v["quotaValue"] == "0" || usedUp.MatchString(words) {
			return true
		}
	}
	return false
}

// retryDelay returns how long the body says to wait, or 0; a day at most.
func retryDelay(f *genai.APIError) time.Duration {
	text, _ := detail(f, "RetryInfo")["retryDelay"].(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(0, min(d, 24*time.Hour))
}

// detail returns the first detail of f that is of a type of google.rpc; nil, which can be read, when there is none.
func detail(f *genai.APIError, name string) map[string]any {
	for _, d := range f.Details {
		if kind, _ := d["@type"].(string); strings.HasSuffix(kind, "/google.rpc."+name) {
			return d
		}
	}
	return nil
}

// errorIn returns the error that body, JSON, speaks of, alone or in an array; nil when it is anything else.
func errorIn(body []byte) *genai.APIError {
	body = bytes.TrimSpace(body)
	var all []json.RawMessage
	if bytes.HasPrefix(body, []byte("[")) && json.Unmarshal(body, &all) == nil && len(all) > 0 {
		body = all[0]
	}
	var said struct{ Error json.RawMessage }
	if json.Unmarshal(body, &said) != nil || len(said.Error) == 0 || string(said.Error) == "null" {
		return nil
	}
	f := &genai.APIError{}
	if json.Unmarshal(said.Error, &f.Message) != nil {
		_ = json.Unmarshal(said.Error, f) // what has the right type
	}
	return f
}

// faultOf returns what the body of an error says.
func faultOf(body []byte) *genai.APIError {
	if f := errorIn(body); f != nil {
		return f
	}
	return &genai.APIError{Message: excerpt(body)}
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// excerpt is what can be shown of a body that is not understood: the title of a page, or the beginning.
func excerpt(body []byte) string {
	if m := title.FindSubmatch(body); m != nil {
		return html.UnescapeString(strings.TrimSpace(string(m[1])))
	}
	const most = 200
	return strings.ToValidUTF8(string(body[:min(len(body), most)]), "?")
}
