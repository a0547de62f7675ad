package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/llm"
)

// maxWords bounds how much of an endpoint's message is kept, in bytes.
const maxWords = 2000

// errorOf returns the error in a body of any shape. status is the HTTP status; 0 for a body in place of an answer. target is the requested URL.
func errorOf(status int, body []byte, target string) *llm.Error {
	var w words
	var v any
	if json.Unmarshal(body, &v) == nil {
		w.read(v)
	}
	api := w.message != "" || w.code != "" || w.kind != ""
	status = cmp.Or(status, w.status)
	if !api {
		w.message = text(body)
	}
	e := &llm.Error{Status: status, Code: w.code, Message: w.message, RetryAfter: w.retry}
	if e.Code == "" || e.Code == strconv.Itoa(status) {
		e.Code = w.kind
	}
	e.Kind = w.classify(status)
	switch {
	case w.isWrongPath(status, api):
		e.Kind = llm.ErrBadRequest
		e.Message = fmt.Sprintf("there is nothing at %s: %s (it says: %s)", target, pathAdvice(target), w.message)
	case e.Message == "" && status >= 400:
		e.Message = http.StatusText(status)
	case e.Message == "":
		e.Message = "it answered with no answer and no reason: " + excerpt(body)
	case isPage(body) && status < 500:
		e.Message = fmt.Sprintf("%s answers with a web page (%s): %s", target, w.message, pathAdvice(target))
	}
	return e
}

// pathAdvice says what may be wrong with a URL that was not found.
func pathAdvice(target string) string {
	if strings.HasSuffix(target, "/responses") {
		return "is base_url right, and has the endpoint the Responses API? Else set api: chat"
	}
	if strings.Contains(target, "/v1") || strings.Contains(target, "/deployments/") {
		return "is base_url right?"
	}
	return "base_url probably lacks /v1"
}

// words is the content of an error's body.
type words struct {
	message, code, kind string
	status              int // HTTP status of an error within a stream
	retry               time.Duration
}

// read reads the error in v, decoded JSON:
//
//	{"error": {"message", "type", "code"}}                   OpenAI, and most others
//	{"error": {"message", "code": 429, "metadata": {"raw"}}} OpenRouter, with the message of the provider behind it
//	{"error": {"message", "code": 429, "status", "details"}} Google, also in a list
//	{"object": "error", "message", "type", "code": 400}      vLLM
//	{"error": "text"}                                        Ollama, LM Studio
//	{"detail": "text"}                                       the default of Python's frameworks
//
// and an error beside or within the choices of an answer.
func (w *words) read(v any) {
	switch v := v.(type) {
	case string:
		w.message = v
	case []any:
		if len(v) > 0 {
			w.read(v[0])
		}
	case map[string]any:
		for _, key := range []string{"error", "errors", "choices"} {
			if inner := v[key]; inner != nil && inner != "" && inner != false {
				w.read(inner)
			}
		}
		w.readObject(v)
	}
}

func (w *words) readObject(v map[string]any) {
	for _, key := range []string{"message", "detail", "msg"} {
		if _, ok := v[key].(map[string]any); ok && key == "message" {
			continue // in a choice it is the model's message
		}
		w.message = cmp.Or(w.message, flat(v[key]))
	}
	if s, ok := v["type"].(string); ok && w.kind == "" && s != eventError {
		w.kind = s
	}
	switch code := v["code"].(type) {
	case float64:
		w.readStatus(code)
	case string:
		if n, err := strconv.ParseFloat(code, 64); err == nil {
			w.readStatus(n)
		} else if w.code == "" {
			w.code = code
		}
	}
	if s, ok := v["status"].(string); ok && w.code == "" {
		w.code = s
	}
	if meta, ok := v["metadata"].(map[string]any); ok {
		if raw, ok := meta["raw"].(string); ok && raw != "" {
			w.message = strings.TrimPrefix(w.message+": "+raw, ": ")
		}
	}
	if details, ok := v["details"].([]any); ok {
		for _, d := range details {
			if d, ok := d.(map[string]any); ok {
				if s, ok := d["retryDelay"].(string); ok {
					w.retry = resetTime(s, time.Time{})
				}
			}
		}
	}
}

func (w *words) readStatus(code float64) {
	if w.status == 0 && code >= 400 && code < 600 {
		w.status = int(code)
	}
}

// flat returns a text, or the texts of a list joined.
func flat(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var w words
		var all []string
		for _, item := range v[:min(len(v), 10)] {
			if w = (words{}); len(all) < 10 {
				w.read(item)
				all = append(all, w.message)
			}
		}
		return strings.Join(all, ", ")
	}
	return ""
}

// Messages of endpoints, in lower case, where the status is not specific. The searched text has the codes and types first, then the message.
var (
	saysQuota = []string{
		"insufficient_quota", "billing_hard_limit", "billing_not_active", "insufficient_balance", "insufficient balance",
		"insufficient credits", "credit balance is too low", "exceeded your current quota", "key limit exceeded",
	}
	saysTooLong = []string{
		"context_length_exceeded", "exceed_context_size", "context_exceeded",
		"maximum context length", "max context length", "context length of only", "exceeds context length", "exceeds the context length",
		"exceeded max context", "greater than the context length", "exceeds the available context", "context size has been exceeded",
		"exceeds context size", "exceed context window", "exceeds the context window", "exceeds the maximum number of tokens",
		"longer than the maximum model length", "maximum model length", "prompt is too long", "prompt too long", "input is too long",
		"too large for model with", "request too large for", "longer than the model's context length", "maximum prompt length is",
		"exceeded model token limit", "range of input length", "`max_new_tokens` must be <=", "prompt exceeds max length",
	}
	saysNoModel = []string{
		"model_not_found", "model_not_available", "deploymentnotfound", "is not a valid model", "invalid model",
		"no models loaded", "no endpoints found for", "model_not_exist", "model_decommissioned",
	}
	saysRefused = []string{
		"content_filter", "content_policy", "responsibleaipolicy", "content management policy", "invalid_prompt",
		"requires moderation", "was flagged",
	}
	saysAuth = []string{
		"invalid_api_key", "incorrect api key", "unsupported_country", "account_deactivated", "authentication_error", "permission_error",
		"api key not valid", "no auth credentials", "user location is not supported", "please enable billing",
	}
	saysLength   = []string{"could not finish the message because max_tokens", "model output limit was reached"}
	saysEmpty    = []string{"json_validate_failed", "tool_use_failed"} // Groq's, for output of the model
	saysLimited  = []string{"rate_limit", "rate limit", "resource_exhausted", "too_many_requests", "toomanyrequests", "too many requests"}
	saysBusy     = []string{"overloaded", "server_error", "internal_error", "service_unavailable", "timeout", "capacity"}
	saysBad      = []string{"invalid_request", "badrequest", "bad_request", "invalid_argument", "unsupported_parameter", "unsupported_value"}
	saysNotFound = []string{"not found", "does not exist", "not exist"}
)

// classify returns the kind of an error. status is 0 when there is none.
func (w *words) classify(status int) error {
	said := strings.ToLower(w.code + " " + w.kind + " " + w.message)
	says := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(said, s) })
	}
	switch {
	case status == http.StatusUnauthorized:
		return llm.ErrAuth
	case says(saysQuota) && w.retry == 0: // Google uses the same message for rate limits, with the time of the next attempt
		return llm.ErrQuota
	case says(saysTooLong) && !leavesNoRoom(said):
		return llm.ErrTooLong
	case says(saysLength):
		return llm.ErrLength
	case says(saysEmpty):
		return llm.ErrEmpty
	case says(saysRefused):
		return llm.ErrRefused
	case says(saysAuth):
		return llm.ErrAuth
	case says(saysNoModel), status == 0 && strings.Contains(said, "model") && says(saysNotFound):
		return llm.ErrNoModel
	case status == statusNoCapacity:
		return llm.ErrUnavailable
	case status >= 400:
		return llm.KindOfStatus(status)
	case says(saysLimited):
		return llm.ErrRateLimited
	case says(saysBusy):
		return llm.ErrUnavailable
	case says(saysBad):
		return llm.ErrBadRequest
	}
	return llm.ErrUnavailable
}

// statusNoCapacity is Groq's.
const statusNoCapacity = 498

var limits = regexp.MustCompile(`is too large: (\d+)\. this model's maximum context length is (\d+) `)

// leavesNoRoom reports whether vLLM's message means that the token limit of the answer is as large as the window, so that no prompt would be short
// enough.
func leavesNoRoom(said string) bool {
	m := limits.FindStringSubmatch(said)
	if m == nil {
		return false
	}
	limit, err1 := strconv.Atoi(m[1])
	window, err2 := strconv.Atoi(m[2])
	return err1 == nil && err2 == nil && limit >= window
}

// isWrongPath reports whether the endpoint does not have the URL: its message does not mention a model, and is a server's default or no API error.
func (w *words) isWrongPath(status int, api bool) bool {
	said := strings.ToLower(w.message)
	if strings.HasPrefix(said, "unexpected endpoint") || strings.HasPrefix(said, "invalid url") {
		return true
	}
	if status != http.StatusNotFound || strings.Contains(said, "model") {
		return false
	}
	switch strings.Trim(said, " .") {
	case "not found", "file not found", "resource not found", "404 page not found", "":
		return w.code == "" || w.code == "404"
	}
	return !api
}

// withHeader adds the data of the response's header.
func withHeader(e *llm.Error, h http.Header) *llm.Error {
	now := time.Now()
	e.RequestID = requestID(h)
	if d := llm.RetryAfter(h, now); d > 0 {
		e.RetryAfter = d
	}
	if e.RetryAfter == 0 && e.Kind == llm.ErrRateLimited { //nolint:errorlint // it is this one itself
		e.RetryAfter = resetAfter(h, now)
	}
	return e
}

// requestID returns the endpoint's id of the call.
func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Apim-Request-Id", "Request-Id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// resetAfter returns when the limit that was reached is replenished. The remaining amounts show which limit it was; without them it was probably that
// of tokens, of which some may remain.
func resetAfter(h http.Header, now time.Time) time.Duration {
	var reached, likely time.Duration
	for _, suffix := range []string{"", "-Requests", "-Tokens"} {
		d := resetTime(h.Get("X-Ratelimit-Reset"+suffix), now)
		if d > 0 {
			likely = d
		}
		if h.Get("X-Ratelimit-Remaining"+suffix) == "0" {
			reached = max(reached, d)
		}
	}
	if reached > 0 {
		return reached
	}
	return likely
}

// resetTime parses "6m0s", "2.5" in seconds, or a Unix time in seconds or milliseconds. It returns at most a day.
func resetTime(s string, now time.Time) time.Duration {
	const day = 24 * time.Hour
	d, err := time.ParseDuration(s)
	if err != nil {
		n, err := strconv.ParseFloat(s, 64)
		switch {
		case err != nil || !(n > 0):
			return 0
		case n >= 1e15:
			return day
		case n > 1e11:
			d = time.UnixMilli(int64(n)).Sub(now)
		case n > 1e9:
			d = time.Unix(int64(n), 0).Sub(now)
		default:
			d = time.Duration(min(n, day.Seconds()) * float64(time.Second))
		}
	}
	return min(max(d, 0), day)
}

// isPage reports whether body is HTML.
func isPage(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

var title = regexp.MustCompile(`(?is)<(?:title|h1)[^>]*>(.*?)</(?:title|h1)`)

// text returns what to show of a body that is not JSON: the title of a page, or the beginning.
func text(body []byte) string {
	if isPage(body) {
		if m := title.FindSubmatch(body); m != nil {
			return excerpt([]byte(html.UnescapeString(string(m[1]))))
		}
		return "a page without a title"
	}
	return excerpt(body)
}

// excerpt returns the beginning of an external text, at most 200 bytes.
func excerpt(b []byte) string {
	const most = 200
	b = bytes.TrimSpace(b)
	return cut(string(b[:min(len(b), most+1)]), most)
}

// hide removes secrets from an external text, before it is cut: a part of a secret would not be found.
func hide(b []byte, secrets []string) []byte {
	return []byte((&llm.Error{Message: string(b)}).Redact(secrets...).Message)
}

// cut returns s, or its beginning of at most n bytes and "…". It does not cut within a word.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.TrimRightFunc(s[:n], func(r rune) bool {
			return r == utf8.RuneError || unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.+/=~", r)
		}) + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
