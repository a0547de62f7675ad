package anthropictest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// Shapes is the number of shapes of an error's body, for [llmtest.Fault].Shape from 0.
//
//	0  Anthropic's
//	1  an object whose error is a text, as some proxies send it
//	2  a page
//	3  plain text
const Shapes = 4

// fail sends f instead of an answer.
func fail(w http.ResponseWriter, f *llmtest.Fault, c *llmtest.Call) {
	body, kind := render(f, c)
	f.Write(w, body, kind)
}

// fault sends f in the middle of an answer, where a page or a text would not be valid.
func (s *stream) fault(f *llmtest.Fault) {
	body, kind := render(f, s.c)
	var data object
	if kind != "application/json" || json.Unmarshal(body, &data) != nil {
		_, _ = s.w.Write(body) // unchanged
		s.flush()
		return
	}
	s.event("error", data)
}

// render returns the body of f, and its content type.
func render(f *llmtest.Fault, c *llmtest.Call) (body []byte, contentType string) {
	message := strings.ReplaceAll(words(f, c), "{key}", c.Key)
	value := object{"type": "error", "error": object{"type": kindOf(f), "message": message}, "request_id": "req_anthropictest1"}
	switch f.Shape {
	case 1:
		value = object{"error": message}
	case 2:
		return fmt.Appendf(nil, "<!DOCTYPE html>\n<html><head><title>%s</title></head>\n<body>%d</body></html>\n", message, f.Status), "text/html"
	case 3:
		return []byte(message + "\n"), "text/plain"
	}
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return body, "application/json"
}

// words returns the API's message for f.
func words(f *llmtest.Fault, c *llmtest.Call) string {
	message := cmp.Or(http.StatusText(f.Status), "Overloaded")
	switch f.Kind {
	case llmtest.Quota:
		message = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
	case llmtest.TooLong:
		message = "prompt is too long: 204923 tokens > 200000 maximum"
	case llmtest.Unknown:
		message = "model: " + c.Model
	}
	return cmp.Or(f.Message, message)
}

// kindOf returns the API's type of f.
func kindOf(f *llmtest.Fault) string {
	switch f.Status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, 529:
		return "overloaded_error"
	}
	if f.Status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}
