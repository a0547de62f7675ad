// Package google is shared by the clients on Google's two SDKs: it interprets the endpoints' errors and finish reasons, and works around the SDKs.
package google

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/sse"
)

// MaxFault bounds how much of an error's body is read, in bytes.
const MaxFault = 64 << 10

// Fault is an error in Google's JSON.
type Fault struct {
	Code    int              `json:"code"` // HTTP status
	Message string           `json:"message"`
	Status  string           `json:"status"` // name of the gRPC code
	Details []map[string]any `json:"details"`
}

// FaultIn returns the error in a JSON body, alone or in an array; nil when there is none.
func FaultIn(body []byte) *Fault {
	body = bytes.TrimSpace(body)
	var all []json.RawMessage
	if bytes.HasPrefix(body, []byte("[")) && json.Unmarshal(body, &all) == nil && len(all) > 0 {
		body = all[0]
	}
	var said struct {
		Error       json.RawMessage
		Description any `json:"error_description"` // OAuth's, when error is a word
	}
	if json.Unmarshal(body, &said) != nil || len(said.Error) == 0 || string(said.Error) == "null" {
		return nil
	}
	f := &Fault{}
	if json.Unmarshal(said.Error, &f.Message) != nil {
		_ = json.Unmarshal(said.Error, f) // decodes the fields with the right type
	} else if more, ok := said.Description.(string); ok {
		f.Message += ": " + more
	}
	return f
}

// FaultOf returns the error in a body, which need not be Google's: proxies may answer instead.
func FaultOf(body []byte) *Fault {
	if f := FaultIn(body); f != nil {
		return f
	}
	return &Fault{Message: sse.Excerpt(body)}
}

// Explain converts f to an error. status is the HTTP status, or 0; header is that of the response.
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

// kind returns the most likely kind of error.
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
		status = cmp.Or(status, http.StatusBadRequest)
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
	// Google's messages for a prompt that does not fit: of the Gemini API, of Vertex AI, and for requests that are too large.
	tooLong = regexp.MustCompile(`(?i)(input|prompt) tokens?\b|token count.*(exceeds|only supports up to)|context (length|window)|prompt is too long|payload size exceeds the limit`)

	// Google's messages, with status 400, for accounts that it does not serve: for their location, or without billing.
	notServed = regexp.MustCompile(`(?i)user location is not supported|enable billing`)

	// Google's messages for quotas that waiting for minutes does not solve. The advice to check plan and billing is in all messages.
	usedUp = regexp.MustCompile(`(?i)\blimit: 0\b|limit '0'|per.?(day|month)|daily|spending cap|credits? (are|is) (depleted|used up)|billing account`)
)

// isUsedUp reports whether the quota is used up, rather than a rate limit reached.
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

// retryDelay returns how long f says to wait, at most a day, or 0.
func (f *Fault) retryDelay() time.Duration {
	text, _ := f.detail("RetryInfo")["retryDelay"].(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(0, min(d, 24*time.Hour))
}

// detail returns the first detail of f of a type of google.rpc; nil, which can be read, when there is none.
func (f *Fault) detail(name string) map[string]any {
	for _, d := range f.Details {
		if kind, _ := d["@type"].(string); strings.HasSuffix(kind, "/google.rpc."+name) {
			return d
		}
	}
	return nil
}
