package openaitest

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// maxRequest bounds a request, in bytes.
const maxRequest = 16 << 20

// Serve starts a server that answers with the replies of h, streamed or not as requested. It serves /v1, which belongs in a client's base URL, and
// Azure's older URLs at its root. It answers invalid requests with 400, without calling h. The server ends with the test.
func Serve(t testing.TB, h llmtest.Handler) *httptest.Server {
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, r *http.Request) { (&exchange{w: w, handler: h}).serve(r) }
	respond := func(w http.ResponseWriter, r *http.Request) { (&exchange{w: w, handler: h, responses: true}).serve(r) }
	versioned := func(serve http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("api-version") == "" {
				writeJSON(w, http.StatusNotFound, object{"error": object{"code": "404", "message": "Resource not found"}})
				return
			}
			serve(w, r)
		}
	}
	mux.HandleFunc("POST /v1/chat/completions", serve)
	mux.HandleFunc("POST /openai/v1/chat/completions", serve)
	mux.HandleFunc("POST /openai/deployments/{deployment}/chat/completions", versioned(serve))
	mux.HandleFunc("POST /v1/responses", respond)
	mux.HandleFunc("POST /openai/v1/responses", respond)
	mux.HandleFunc("POST /openai/responses", versioned(respond))
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []object{{"id": llmtest.Model, "object": "model", "owned_by": "test"}}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, object{"error": object{
			"message": "Invalid URL (" + r.Method + " " + r.URL.Path + ")", "type": "invalid_request_error", "param": nil, "code": nil,
		}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// object is a JSON object.
type object map[string]any

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// exchange is one request and its response.
type exchange struct {
	w       http.ResponseWriter
	handler llmtest.Handler
	call    *llmtest.Call
	reply   *llmtest.Reply
	gone    context.Context
	usage   bool // the stream ends with it

	responses bool // the request is for the Responses API
}

func (x *exchange) serve(r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest)) // to the end: only then the server notices that the client is gone
	if err != nil {
		return
	}
	x.gone = r.Context()
	x.call = &llmtest.Call{Gone: x.gone.Done(), Key: r.Header.Get("Api-Key")}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		x.call.Key = bearer
	}
	if x.responses {
		err = decodeResponse(body, x.call)
	} else {
		x.usage, err = decode(body, x.call)
	}
	if err != nil {
		writeJSON(x.w, http.StatusBadRequest, object{"error": object{
			"message": err.Error(), "type": "invalid_request_error", "param": nil, "code": nil,
		}})
		return
	}
	if d := r.PathValue("deployment"); d != "" {
		x.call.Model = d
	}
	reply := *x.handler(x.call) // a copy: the handler may return it for other calls, too
	reply.Model = cmp.Or(reply.Model, x.call.Model)
	x.reply = &reply
	x.answer()
}

func (x *exchange) answer() {
	r := x.reply
	if len(r.Pieces) == 0 && !x.call.Wait(r) {
		return
	}
	x.w.Header().Set("X-Request-Id", "req_0123456789")
	switch {
	case r.Error != nil && len(r.Pieces) == 0:
		x.fault(r.Error)
	case r.Finish == llmtest.Blocked:
		writeJSON(x.w, http.StatusBadRequest, blocked)
	case r.Garbage != "":
		x.w.Header().Set("Content-Type", http.DetectContentType([]byte(r.Garbage)))
		if strings.HasPrefix(r.Garbage, "data:") {
			x.w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(x.w, r.Garbage)
	case x.responses && x.call.Stream:
		x.streamResponse()
	case x.responses:
		writeJSON(x.w, http.StatusOK, x.wholeResponse())
	case x.call.Stream:
		x.stream()
	default:
		writeJSON(x.w, http.StatusOK, x.whole())
	}
	x.call.Stay(r)
}

// isTools reports whether the answer is a function call.
func (x *exchange) isTools() bool {
	return x.call.Mode == llm.StructuredTools && len(x.reply.Pieces)+len(x.reply.Second) > 0 && x.reply.Finish != llmtest.Refused
}

// finish returns the finish_reason.
func (x *exchange) finish() string {
	switch x.reply.Finish {
	case llmtest.Length:
		return "length"
	case llmtest.Filtered:
		return "content_filter"
	case llmtest.BadCall:
		return "function_call_filter: MALFORMED_FUNCTION_CALL" // from Google's compatible endpoint
	case llmtest.NeverSeen:
		return "out_of_moonlight"
	}
	if x.isTools() {
		return "tool_calls"
	}
	return "stop"
}

// tokens returns the usage as OpenAI does: completion tokens include thoughts.
func (x *exchange) tokens() object {
	u := x.reply.Usage
	details := object{"reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0, "audio_tokens": 0}
	if x.reply.Thoughts != "" {
		details["reasoning_tokens"] = u.Reasoning
	}
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": details,
	}
}

// whole returns an answer that is not streamed.
func (x *exchange) whole() object {
	r := x.reply
	text := strings.Join(r.Pieces, "")
	message := object{"role": "assistant", "content": text, "refusal": nil}
	switch {
	case r.Finish == llmtest.Refused:
		message["content"], message["refusal"] = nil, text
	case x.isTools():
		calls := []object{toolCall(0, text)}
		if r.Second != "" {
			calls = append(calls, toolCall(1, r.Second))
		}
		message["content"], message["tool_calls"] = nil, calls
		if r.Before != "" {
			message["content"] = r.Before
		}
	case r.Before != "":
		message["content"] = r.Before + text
	}
	if r.Thoughts != "" {
		message["reasoning_content"] = r.Thoughts
	}
	choices := []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": x.finish()}}
	if r.Finish == llmtest.Nothing {
		choices = choices[:0]
	}
	return object{
		"id": id, "object": "chat.completion", "created": created, "model": r.Model, "choices": choices, "usage": x.tokens(),
		"system_fingerprint": "fp_0123456789",
	}
}

func toolCall(i int, arguments string) object {
	return object{"id": callID(i), "type": "function", "function": object{"name": functionNames[i], "arguments": arguments}}
}

// functionNames are the names of the functions in the first and the second call.
var functionNames = [...]string{"decide", "decide"}

func callID(i int) string { return []string{"call_a1B2c3", "call_d4E5f6"}[i] }

const (
	id      = "chatcmpl-0123456789"
	created = 1795170000
)
