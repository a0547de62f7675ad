package geminitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// Shapes is the number of shapes of an error's body, for [llmtest.Fault].Shape from 0. Only the first two tell the kinds of 429 and 400 apart.
//
//	0  an object, with details
//	1  an array with that object, as Google sends it where no events were asked for
//	2  an object with nothing but a message
//	3  an object whose error is a text
//	4  a page
//	5  plain text
const Shapes = 6

// fail sends f instead of an answer.
func fail(w http.ResponseWriter, f *llmtest.Fault, c *llmtest.Call) {
	body, kind := render(f, c)
	f.Write(w, body, kind)
}

// fault sends f in the middle of an answer, where a page or a text would not be valid.
func (s *stream) fault(f *llmtest.Fault) {
	body, kind := render(f, s.c)
	if f.Shape == 1 || !strings.HasPrefix(kind, "application/json") {
		_, _ = s.w.Write(body) // unchanged
		s.flush()
		return
	}
	var data object
	if err := json.Unmarshal(body, &data); err != nil {
		panic(err)
	}
	s.event(data)
}

// render returns the body of f, and its content type.
func render(f *llmtest.Fault, c *llmtest.Call) (body []byte, contentType string) {
	message, details := words(f, c)
	message = strings.ReplaceAll(message, "{key}", c.Key)
	var value any
	switch f.Shape {
	case 2:
		value = object{"error": object{"message": message}}
	case 3:
		value = object{"error": message}
	case 4:
		return fmt.Appendf(nil, "<!DOCTYPE html>\n<html lang=en>\n<title>%s</title>\n<p><b>%d.</b> <ins>That’s an error.</ins>\n", message, f.Status), "text/html; charset=UTF-8"
	case 5:
		return []byte(message + "\n"), "text/plain"
	default:
		e := object{"code": f.Status, "message": message, "status": statusName(f.Status)}
		if f.RetryAfter > 0 && f.Form == llmtest.RetryInfo {
			details = append(details, object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", f.RetryAfter.Seconds())})
		}
		if len(details) > 0 {
			e["details"] = details
		}
		value = object{"error": e}
		if f.Shape == 1 {
			value = []any{value}
		}
	}
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(body, '\n'), "application/json; charset=UTF-8"
}

// words returns Google's message for f.
func words(f *llmtest.Fault, c *llmtest.Call) (message string, details []object) {
	switch f.Kind {
	case llmtest.Quota:
		message = "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 50"
		details = []object{
			quotaFailure("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "50", c),
			{"@type": "type.googleapis.com/google.rpc.Help", "links": []object{{"description": "Learn more about Gemini API quotas", "url": "https://ai.google.dev/gemini-api/docs/rate-limits"}}},
		}
	case llmtest.TooLong:
		message = "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."
	case llmtest.Unknown:
		message = fmt.Sprintf("models/%s is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", c.Model)
	default:
		switch f.Status {
		case http.StatusUnauthorized:
			message = "Request had invalid authentication credentials."
		case http.StatusTooManyRequests:
			message = "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."
			details = []object{quotaFailure("GenerateContentInputTokensPerModelPerMinute-FreeTier", "250000", c)}
		case http.StatusServiceUnavailable:
			message = "The model is overloaded. Please try again later."
		default:
			message = cmp.Or(http.StatusText(f.Status), "The request failed.")
		}
	}
	return cmp.Or(f.Message, message), details
}

func quotaFailure(id, value string, c *llmtest.Call) object {
	return object{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []object{{
		"quotaMetric":     "generativelanguage.googleapis.com/generate_content_free_tier_requests",
		"quotaId":         id,
		"quotaDimensions": object{"location": "global", "model": c.Model},
		"quotaValue":      value,
	}}}
}

// statusName returns Google's status for an HTTP status, a code of google.rpc.
func statusName(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	}
	return "UNKNOWN"
}
