// Package google is what the clients of Google's two SDKs have in common: what the endpoints say of errors and of the end of an answer, and
// how to live with the SDKs.
package google

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// MaxFault bounds what is read of the body of an error, in bytes.
const MaxFault = 64 << 10

// Fault is an error in Google's JSON.
type Fault struct {
	Code    int              `json:"code"` // HTTP
	Message string           `json:"message"`
	Status  string           `json:"status"` // the name of gRPC's code
	Details []map[string]any `json:"details"`
}

// FaultIn returns the error that body, JSON, speaks of, alone or in an array; nil when it is anything else.
func FaultIn(body []byte) *Fault {
	body = bytes.TrimSpace(body)
	var all []json.RawMessage
	if bytes.HasPrefix(body, []byte("[")) && json.Unmarshal(body, &all) == nil && len(all) > 0 {
		body = all[0]
	}
	var said struct {
		Error       json.RawMessage
		Description any `json:"error_description"` // OAuth's, beside an error that is a word
	}
	if json.Unmarshal(body, &said) != nil || len(said.Error) == 0 || string(said.Error) == "null" {
		return nil
	}
	f := &Fault{}
	if json.Unmarshal(said.Error, &f.Message) != nil {
		_ = json.Unmarshal(said.Error, f) // what has the right type
	} else if more, ok := said.Description.(string); ok {
		f.Message += ": " + more
	}
	return f
}

// FaultOf returns what the body of an error says: proxies in front of Google say what they like.
func FaultOf(body []byte) *Fault {
	if f := FaultIn(body); f != nil {
		return f
	}
	return &Fault{Message: Excerpt(body)}
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// Excerpt is what can be shown of a body that is not understood: the title of a page, or the beginning.
func Excerpt(body []byte) string {
	if m := title.FindSubmatch(body); m != nil {
		return html.UnescapeString(strings.TrimSpace(string(m[1])))
	}
	const most = 200
	return strings.ToValidUTF8(string(body[:min(len(body), most)]), "?")
}

// Explain returns the error that f is. status is HTTP's, or 0; header is that of the response.
func (f *Fault) Explain(status int, header http.Header, now time.Time) *llm.Error {
	e := &llm.Error{
		Kind: f.kind(status), Status: status, Code: f.Status, Message: f.Message,
		RetryAfter: max(llm.RetryAfter(header, now), f.retryDelay()),
		RequestID:  header.Get("X-Request-Id"),
	}
	switch {
	case status >= 300 && status < 400:
		e.Message = "the endpoint redirects to another address, which is not followed, since the key would go with it: set base_url to the right one"
	case e.Message == "":
		e.Message = http.StatusText(status)
	}
	if id, ok := f.detail("RequestInfo")["requestId"].(string); ok {
		e.RequestID = id
	}
	return e
}

// kind returns the kind of error that f most likely is.
func (f *Fault) kind(status int) error {
	if status == http.StatusRequestEntityTooLarge {
		return llm.ErrTooLong
	}
	switch f.Status {
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return llm.ErrAuth
	case "NOT_FOUND":
		return llm.ErrNoModel
	case "RESOURCE_EXHAUSTED":
		status = http.StatusTooManyRequests
	case "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "ALREADY_EXISTS", "UNIMPLEMENTED":
		if reason, _ := f.detail("ErrorInfo")["reason"].(string); reason == "API_KEY_INVALID" {
			return llm.ErrAuth
		}
		if status == 0 {
			status = http.StatusBadRequest
		}
	case "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED":
		return llm.ErrUnavailable
	}
	switch kind := llm.KindOfStatus(status); {
	case errors.Is(kind, llm.ErrRateLimited) && f.isUsedUp():
		return llm.ErrQuota
	case errors.Is(kind, llm.ErrBadRequest) && tooLong.MatchString(f.Message):
		return llm.ErrTooLong
	case errors.Is(kind, llm.ErrBadRequest) && notServed.MatchString(f.Message):
		return llm.ErrAuth
	default:
		return kind
	}
}

var (
	// What Google says of a prompt that does not fit: at the Gemini API, at Vertex AI, and of more than fits into a request.
	tooLong = regexp.MustCompile(`(?i)(input|prompt) tokens?\b|token count.*(exceeds|only supports up to)|context (length|window)|prompt is too long|payload size exceeds the limit`)

	// What Google says of an account that it does not serve, with 400: for where it is, or for want of a way to pay.
	notServed = regexp.MustCompile(`(?i)user location is not supported|enable billing`)

	// What Google says of a quota that is not one of the next minutes. That the plan and the billing should be looked at it says
	// of each.
	usedUp = regexp.MustCompile(`(?i)\blimit: 0\b|limit '0'|per.?(day|month)|daily|spending cap|credits? (are|is) (depleted|used up)|billing account`)
)

// isUsedUp tells a quota that waiting does not help with from a rate.
func (f *Fault) isUsedUp() bool {
	meta, _ := f.detail("ErrorInfo")["metadata"].(map[string]any)
	limits := []any{map[string]any{
		"description": f.Message, "quotaMetric": meta["quota_metric"], "quotaId": meta["quota_limit"], "quotaValue": meta["quota_limit_value"],
	}}
	violations, _ := f.detail("QuotaFailure")["violations"].([]any)
	for _, v := range append(limits, violations...) {
		v, _ := v.(map[string]any)
		if v["quotaValue"] == "0" {
			return true
		}
		for _, key := range []string{"subject", "description", "quotaMetric", "quotaId"} {
			if words, _ := v[key].(string); usedUp.MatchString(words) {
				return true
			}
		}
	}
	return false
}

// retryDelay returns how long f says to wait, or 0; a day at most.
func (f *Fault) retryDelay() time.Duration {
	text, _ := f.detail("RetryInfo")["retryDelay"].(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(0, min(d, 24*time.Hour))
}

// detail returns the first detail of f that is of a type of google.rpc; nil, which can be read, when there is none.
func (f *Fault) detail(name string) map[string]any {
	for _, d := range f.Details {
		if kind, _ := d["@type"].(string); strings.HasSuffix(kind, "/google.rpc."+name) {
			return d
		}
	}
	return nil
}
