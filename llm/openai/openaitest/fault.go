package openaitest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// The shapes of an error's body, for [llmtest.Fault].Shape. A fault with a delay in its body has Google's shape.
const (
	OpenAI     = iota // {"error": {"message", "type", "param", "code"}}
	VLLM              // {"object": "error", "message", "type", "code": 429}
	Ollama            // {"error": "text"}
	OpenRouter        // {"error": {"code": 429, "message", "metadata": {"raw"}}}; in a stream beside the choices
	HTML              // a page, of a proxy before the endpoint
	Google            // [{"error": {"code": 429, "message", "status", "details"}}]
	Shapes            // the number of shapes
)

// said is a fault as the endpoint reports it.
type said struct {
	status              int
	message, code, kind string
	google              string // Google's status
}

// codes are OpenAI's messages by status; other endpoints send parts of them.
var codes = map[int]said{
	400: {kind: "invalid_request_error", google: "INVALID_ARGUMENT", message: "Something about the request is wrong."},
	401: {kind: "invalid_request_error", code: "invalid_api_key", google: "UNAUTHENTICATED", message: "Incorrect API key provided."},
	402: {kind: "insufficient_quota", code: "insufficient_quota", google: "FAILED_PRECONDITION", message: "Insufficient credits."},
	403: {kind: "request_forbidden", code: "unsupported_country_region_territory", google: "PERMISSION_DENIED", message: "Country, region, or territory not supported"},
	404: {kind: "invalid_request_error", code: "model_not_found", google: "NOT_FOUND", message: "The model does not exist or you do not have access to it."},
	408: {kind: "timeout", google: "DEADLINE_EXCEEDED", message: "Request timed out."},
	413: {kind: "invalid_request_error", code: "request_too_large", google: "INVALID_ARGUMENT", message: "Request entity too large."},
	429: {kind: "requests", code: "rate_limit_exceeded", google: "RESOURCE_EXHAUSTED", message: "Rate limit reached for requests."},
	500: {kind: "server_error", google: "INTERNAL", message: "The server had an error while processing your request."},
	503: {kind: "service_unavailable_error", google: "UNAVAILABLE", message: "The engine is currently overloaded, please try again later."},
	504: {kind: "timeout", google: "DEADLINE_EXCEEDED", message: "The upstream server did not answer in time."},
}

// say returns the report of f; key is the client's.
func say(f *llmtest.Fault, model, key string) said {
	var s said
	switch f.Kind {
	case llmtest.Quota:
		s = said{
			status: 429, kind: "insufficient_quota", code: "insufficient_quota", google: "RESOURCE_EXHAUSTED",
			message: "You exceeded your current quota, please check your plan and billing details.",
		}
	case llmtest.TooLong:
		s = said{
			status: 400, kind: "invalid_request_error", code: "context_length_exceeded", google: "INVALID_ARGUMENT",
			message: "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
		}
	case llmtest.Unknown:
		s = said{
			status: 404, kind: "invalid_request_error", code: "model_not_found", google: "NOT_FOUND",
			message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model),
		}
	default:
		s = codes[500]
		if known, ok := codes[f.Status]; ok {
			s = known
		}
	}
	s.status = cmp.Or(f.Status, s.status, http.StatusInternalServerError)
	s.message = strings.ReplaceAll(cmp.Or(f.Message, s.message), "{key}", key)
	return s
}

// shape returns the shape of f's body.
func shape(f *llmtest.Fault) int {
	if f.Form == llmtest.RetryInfo && f.RetryAfter > 0 {
		return Google
	}
	return f.Shape
}

// body returns the JSON of an error in its shape.
func (s *said) body(f *llmtest.Fault) any {
	switch shape(f) {
	case VLLM:
		return object{"object": "error", "message": s.message, "type": cmp.Or(s.code, s.kind), "param": nil, "code": s.status}
	case Ollama:
		return object{"error": s.message}
	case OpenRouter:
		return object{"error": s.routed(), "user_id": "user_0123"}
	case Google:
		e := object{"code": s.status, "message": s.message, "status": s.google}
		if f.Form == llmtest.RetryInfo && f.RetryAfter > 0 {
			e["details"] = []object{
				{"@type": "type.googleapis.com/google.rpc.Help", "links": []object{{"description": "Learn more"}}},
				{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", f.RetryAfter.Seconds())},
			}
		}
		return []object{{"error": e}}
	}
	var code any
	if s.code != "" {
		code = s.code
	}
	return object{"error": object{"message": s.message, "type": s.kind, "param": nil, "code": code}}
}

// routed returns OpenRouter's error, with the message of the provider behind it.
func (s *said) routed() object {
	return object{"code": s.status, "message": "Provider returned error", "metadata": object{"provider_name": "Test", "raw": s.message}}
}

func (s *said) page() string {
	return fmt.Sprintf("<html>\r\n<head><title>%d %s</title></head>\r\n<body>\r\n<center><h1>%[1]d %[2]s</h1></center>\r\n"+
		"<hr><center>nginx</center>\r\n<p>%[3]s</p></body>\r\n</html>\r\n", s.status, http.StatusText(s.status), s.message)
}

// fault answers with an error.
func (x *exchange) fault(f *llmtest.Fault) {
	s := say(f, x.call.Model, x.call.Key)
	f.Header(x.w.Header(), time.Now())
	if shape(f) == HTML {
		x.w.Header().Set("Content-Type", "text/html")
		x.w.WriteHeader(s.status)
		_, _ = io.WriteString(x.w, s.page())
		return
	}
	writeJSON(x.w, s.status, s.body(f))
}

// faultFrame ends a stream with an error.
func (x *exchange) faultFrame(f *llmtest.Fault) {
	s := say(f, x.call.Model, x.call.Key)
	switch shape(f) {
	case OpenRouter:
		chunk := x.chunk(object{"content": ""}, "error", nil)
		chunk["error"] = s.routed()
		x.send(chunk)
		x.write([]byte("data: [DONE]\n\n"))
	case HTML:
		x.write([]byte(s.page()))
	case VLLM: // vLLM sends [DONE] after an error, too
		x.send(s.body(f))
		x.write([]byte("data: [DONE]\n\n"))
	case Google:
		x.write([]byte("event: error\n"))
		x.send(s.body(f))
	default:
		x.send(s.body(f))
	}
}

// blocked is Azure's error for a prompt that its filter blocks.
var blocked = object{"error": object{
	"message": "The response was filtered due to the prompt triggering the content management policy. Please modify your prompt and retry.",
	"type":    nil, "param": "prompt", "code": "content_filter", "status": 400,
	"innererror": object{"code": "ResponsibleAIPolicyViolation", "content_filter_result": object{"hate": object{"filtered": true, "severity": "high"}}},
}}
