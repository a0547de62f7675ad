package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

// recorder is a server that records its requests, and answers as its handler does.
type recorder struct {
	*httptest.Server

	mu     sync.Mutex
	paths  []string
	bodies []string
}

func record(t *testing.T, answer http.HandlerFunc) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.paths, r.bodies = append(r.paths, q.URL.RequestURI()), append(r.bodies, string(b))
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

// said is a complete response with a text.
const said = `{"object":"response","status":"completed","model":"m-1","output":[{"type":"message","content":[{"type":"output_text","text":"Hello."}]}],` +
	`"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":3},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}`

// events returns a stream of the Responses API.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(d), &e)
		b.WriteString("event: " + e.Type + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

func completed(response string) string {
	return `{"type":"response.completed","response":` + response + `}`
}

func text(s string) string {
	return `{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"` + s + `"}`
}

// TestResponseRequest checks what the Responses API is asked.
func TestResponseRequest(t *testing.T) {
	zero := 0.0
	png := &llm.Image{Type: "image/png", Data: []byte("\x89PNG")}
	r := &llm.Request{
		System: "Be brief.", MaxTokens: 100, Temperature: &zero, CacheKey: "c1",
		Schema:   json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"required":["z","a"],"additionalProperties":false}`),
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{{Text: "What is this?"}, {Image: png}}}, llm.Assistant("A picture."), llm.User("")},
	}
	common := `"input":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"input_text","text":"What is this?"},` +
		`{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw=="}]},{"role":"assistant","content":"A picture."},` +
		`{"role":"user","content":"(empty)"}],"max_output_tokens":100,"model":"m","prompt_cache_key":"c1","reasoning":{"effort":"low"},"store":false,"stream":true,"temperature":0`
	for mode, want := range map[llm.Structured]string{
		llm.StructuredSchema: `"text":{"format":{"type":"json_schema","name":"decision","schema":` + string(r.Schema) + `,"strict":true}}`,
		llm.StructuredObject: `"text":{"format":{"type":"json_object"}}`,
		llm.StructuredPrompt: `"stream":true`,
		llm.StructuredTools: `"tool_choice":{"name":"decide","type":"function"},"parallel_tool_calls":false,"tools":[{"description":"Take the decision. Call this exactly once.",` +
			`"name":"decide","parameters":` + string(r.Schema) + `,"strict":true,"type":"function"}]`,
	} {
		server := record(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, said) })
		c := newClient(t, openai.Config{
			BaseURL: server.URL + "/v1", Model: "m", API: "responses", Structured: mode, Images: true, PromptCacheKey: yes(), ReasoningEffort: "low", ParallelToolCalls: new(false),
		})
		got := generate(t, c, r)
		wanted := llm.Usage{Input: 10, Cached: 4, CacheWrite: 3, Output: 5, Reasoning: 2}
		if got.err != nil || got.text != "Hello." || got.done.Model != "m-1" || got.done.Usage != wanted {
			t.Errorf("%s: %+v", mode, got)
		}
		var have, should any
		if err := errors.Join(json.Unmarshal([]byte(server.bodies[0]), &have), json.Unmarshal([]byte("{"+common+","+want+"}"), &should)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(should, have); diff != "" {
			t.Errorf("%s: the request (-want +got):\n%s", mode, diff)
		}
		if (mode == llm.StructuredSchema || mode == llm.StructuredTools) && !strings.Contains(server.bodies[0], string(r.Schema)) {
			t.Errorf("%s: the schema is changed: %s", mode, server.bodies[0])
		}
		if server.paths[0] != "/v1/responses" {
			t.Errorf("the path is %s", server.paths[0])
		}
	}
}

// TestAPI checks which API a request goes to.
func TestAPI(t *testing.T) {
	for _, tt := range []struct {
		cfg  openai.Config
		want string
	}{
		{openai.Config{Model: "gpt-5.4-mini", Structured: llm.StructuredTools}, "/v1/chat/completions"},
		{openai.Config{Model: "gpt-5.4-mini", API: "responses"}, "/v1/responses"},
		{openai.Config{Model: "gpt-6-sol"}, "/v1/chat/completions"},
		{openai.Config{Model: "gpt-6-sol", Structured: llm.StructuredTools}, "/v1/responses"},
		{openai.Config{Model: "gpt-6-sol", Structured: llm.StructuredTools, MaxTokensField: "max_tokens"}, "/v1/responses"},
		{openai.Config{Model: "gpt-6-sol", Structured: llm.StructuredTools, ReasoningEffort: "none"}, "/v1/chat/completions"},
		{openai.Config{Model: "gpt-6-astra", Structured: llm.StructuredTools, ReasoningEffort: "high"}, "/v1/responses"},
		{openai.Config{Model: "gpt-6-astra", Structured: llm.StructuredTools, API: "chat"}, "set structured: json_schema"},
		{openai.Config{Model: "gpt-6-astra", ReasoningEffort: "none", API: "responses"}, "does not take reasoning_effort: none"},
	} {
		server := record(t, func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/responses") {
				_, _ = io.WriteString(w, said)
				return
			}
			_, _ = io.WriteString(w, stream(delta(`{"content":"Hello."}`), end("stop")))
		})
		if tt.cfg.BaseURL = server.URL + "/v1"; tt.cfg.MaxTokensField == "" {
			tt.cfg.MaxTokensField = "max_completion_tokens"
		}
		r := decide()
		r.MaxTokens = 100
		got := generate(t, newClient(t, tt.cfg), r)
		if strings.HasPrefix(tt.want, "/") {
			if got.err != nil || !slices.Equal(server.paths, []string{tt.want}) {
				t.Errorf("%+v: asked %v, %v, want %s", tt.cfg, server.paths, got.err, tt.want)
			}
			continue
		}
		if e := failure(t, got, llm.ErrBadRequest); !strings.Contains(e.Message, tt.want) || len(server.paths) > 0 {
			t.Errorf("%+v: %v after %v, want %q", tt.cfg, e, server.paths, tt.want)
		}
	}
	if _, err := openai.New(openai.Config{Model: "m", API: "assistants"}); err == nil || !strings.Contains(err.Error(), "API") {
		t.Errorf("New = %v", err)
	}
}

// TestSentElsewhere checks that a request goes to the Responses API when the endpoint says that the model has no other, and the next one at once; and
// that no other error, nor api: chat, does that.
func TestSentElsewhere(t *testing.T) {
	const (
		chat, responses = "/v1/chat/completions", "/v1/responses"

		only  = "This model is only supported in v1/responses and not in v1/chat/completions."
		tools = "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
	)
	for _, tt := range []struct {
		status    int
		says, api string
		want      []string
	}{
		{404, only, "", []string{chat, responses, responses}},
		{400, tools, "", []string{chat, responses, responses}},
		{404, only, "chat", []string{chat, chat}},
		{500, only, "", []string{chat, chat}},
		{404, "The model `v1/responses` does not exist", "", []string{chat, chat}},
	} {
		server := record(t, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == responses {
				_, _ = io.WriteString(w, events(text("Hello."), completed(said)))
				return
			}
			w.WriteHeader(tt.status)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": tt.says, "type": "invalid_request_error"}})
		})
		c := newClient(t, openai.Config{BaseURL: server.URL + "/v1", API: tt.api})
		for range 2 {
			got := generate(t, c, hi())
			if slices.Contains(tt.want, responses) {
				if got.err != nil || got.text != "Hello." {
					t.Errorf("%s: %+v", tt.says, got)
				}
				continue
			}
			var e *llm.Error
			if !errors.As(got.err, &e) || e.Status != tt.status {
				t.Errorf("%s: %+v", tt.says, got)
			}
		}
		if !slices.Equal(server.paths, tt.want) {
			t.Errorf("%s: asked %v, want %v", tt.says, server.paths, tt.want)
		}
	}
}

// TestResponseEnds checks how answers of the Responses API end.
func TestResponseEnds(t *testing.T) {
	usage := `"usage":{"input_tokens":"7","output_tokens":3}`
	failed := func(code, message string) string {
		return `{"type":"response.failed","response":{"status":"failed","error":{"code":"` + code + `","message":"` + message + `"},` + usage + `}}`
	}
	incomplete := func(reason string) string {
		return `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"` + reason + `"},` + usage + `}}`
	}
	for _, tt := range []struct {
		name, body string
		text       string
		want       error
		says       string
		usage      bool
	}{
		{"pieces and the whole", events(text("Hel"), text("lo."), completed(said)), "Hello.", nil, "", false},
		{"the whole alone", events(completed(said)), "Hello.", nil, "", false},
		{"no stream", said, "Hello.", nil, "", false},
		{"[DONE] after the end", events(text("Hello."), completed(said)) + "data: [DONE]\n\n", "Hello.", nil, "", false},
		{"[DONE] alone", events(text("Hel")) + "data: [DONE]\n\n", "Hel", llm.ErrTruncated, "", false},
		{"no end", events(text("Hel")), "Hel", llm.ErrTruncated, "", false},
		{"end without a response", events(text("Hel"), `{"type":"response.completed"}`), "Hel", llm.ErrUnavailable, "no response", false},
		{"length", events(text("Hel"), incomplete("max_output_tokens")), "Hel", llm.ErrLength, "max_tokens", true},
		{"filter", events(text("Hel"), incomplete("content_filter")), "Hel", llm.ErrRefused, "filter", true},
		{"an unknown reason", events(text("Hel"), incomplete("moonlight")), "Hel", llm.ErrTruncated, "gave up", true},
		{"no reason", events(text("Hel"), incomplete("")), "Hel", llm.ErrTruncated, "gave up", true},
		{"no stream, incomplete", `{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, "", llm.ErrLength, "", false},
		{"no stream, failed", `{"object":"response","status":"failed","error":{"code":"server_error","message":"on fire"},"output":[]}`, "", llm.ErrUnavailable, "on fire", false},
		{"no stream, in the background", `{"object":"response","status":"queued","output":[]}`, "", llm.ErrUnavailable, "", false},
		{"failed", events(text("Hel"), failed("server_error", "The model failed.")), "Hel", llm.ErrUnavailable, "The model failed.", true},
		{"rate", events(failed("rate_limit_exceeded", "Slow down.")), "", llm.ErrRateLimited, "Slow down.", true},
		{"bad prompt", events(failed("invalid_prompt", "It was flagged.")), "", llm.ErrRefused, "flagged", true},
		{"failed without a word", events(`{"type":"response.failed","response":{"status":"failed","error":null}}`), "", llm.ErrUnavailable, "does not say which", false},
		{"error", events(`{"type":"error","code":"rate_limit_exceeded","message":"Slow down.","param":null,"sequence_number":3}`), "", llm.ErrRateLimited, "Slow down.", false},
		{"error in an object", events(`{"type":"error","error":{"type":"server_error","message":"on fire"}}`), "", llm.ErrUnavailable, "on fire", false},
		{"error of vLLM", events(text("Hel")) + `data: {"object":"error","message":"on fire","type":"InternalServerError","code":500}` + "\n\n", "Hel", llm.ErrUnavailable, "on fire", false},
		{"error of a proxy", "data: {\"error\":{\"message\":\"on fire\"}}\n\n", "", llm.ErrUnavailable, "on fire", false},
		{"refusal", events(`{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, completed(`{"status":"completed","output":[]}`)), "", llm.ErrRefused, "No.", false},
		{"refusal, not in pieces", events(completed(`{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}`)), "", llm.ErrRefused, "No.", false},
		{"an empty answer", events(completed(`{"status":"completed","output":[{"type":"reasoning","summary":[]}]}`)), "", llm.ErrEmpty, "", false},
		{"a piece that is no text", events(`{"type":"response.output_text.delta","output_index":0,"delta":{"a":1}}`, completed(said)), "", llm.ErrUnavailable, "no text", false},
		{"chat completions", stream(delta(`{"content":"Hello."}`), end("stop")), "", llm.ErrTruncated, "", false},
		{"a piece without text", events(`{"type":"response.output_text.delta","output_index":0}`, text("Hello."), completed(said)), "Hello.", nil, "", false},
		{"strange types", events(`{"type":"response.created","response":"r"}`, `{"type":"response.in_progress","response":{"usage":7,"output":{}}}`, text("Hello."),
			`{"type":"response.completed","response":{"model":7,"status":7,"usage":{"input_tokens":{}},"output":"x"}}`), "Hello.", nil, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := generate(t, newClient(t, openai.Config{BaseURL: raw(t, 200, nil, tt.body), API: "responses"}), hi())
			if got.text != tt.text {
				t.Errorf("the text is %q, want %q", got.text, tt.text)
			}
			if tt.want == nil {
				if got.err != nil || !got.done.Done {
					t.Errorf("Generate = %+v", got)
				}
				return
			}
			if e := failure(t, got, tt.want); !strings.Contains(e.Message, tt.says) || tt.usage != (e.Usage == llm.Usage{Input: 7, Output: 3}) {
				t.Errorf("the error is %v with %+v, want %q", e, e.Usage, tt.says)
			}
		})
	}
}

// TestResponseCalls checks which function call of several is the answer.
func TestResponseCalls(t *testing.T) {
	added := func(i, kind string) string {
		return `{"type":"response.output_item.added","output_index":` + i + `,"item":{"type":"` + kind + `","name":"decide","call_id":"c` + i + `"}}`
	}
	piece := func(i, s string) string {
		return `{"type":"response.function_call_arguments.delta","output_index":` + i + `,"delta":"` + s + `"}`
	}
	for name, body := range map[string]string{
		"two":              events(added("0", "reasoning"), added("1", "function_call"), piece("1", "{"), added("2", "function_call"), piece("2", "[]"), piece("1", "}"), completed(`{}`)),
		"with text before": events(text("Well."), added("1", "function_call"), piece("1", "{}"), completed(`{}`)),
		"not announced":    events(piece("1", "{}"), piece("2", "[]"), completed(`{}`)),
		"not in pieces": events(completed(`{"output":[{"type":"message","content":[{"type":"output_text","text":"Well."}]},` +
			`{"type":"function_call","arguments":"{}"},{"type":"function_call","arguments":"[]"}]}`)),
	} {
		got := generate(t, newClient(t, openai.Config{BaseURL: raw(t, 200, nil, body), API: "responses", Structured: llm.StructuredTools}), decide())
		if got.err != nil || got.text != "{}" {
			t.Errorf("%s: %+v, want {}", name, got)
		}
	}
}

// TestResponseFaults checks errors in each shape, at the beginning and in a stream.
func TestResponseFaults(t *testing.T) {
	for shape := range openaitest.Shapes {
		for _, pieces := range [][]string{nil, {"Once ", "upon"}} {
			server := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
				return &llmtest.Reply{Pieces: pieces, Error: &llmtest.Fault{Status: 503, Message: "The barn is on fire, {key}.", Shape: shape}}
			})
			const key = "sk-not-a-real-key"
			got := generate(t, newClient(t, openai.Config{BaseURL: server.URL + "/v1", API: "responses", Key: key}), hi())
			want := llm.ErrUnavailable
			if shape == openaitest.HTML && pieces != nil {
				want = llm.ErrTruncated
			}
			e := failure(t, got, want)
			if strings.Contains(e.Error(), key) || (shape != openaitest.HTML && !strings.Contains(e.Message, "on fire")) || got.text != strings.Join(pieces, "") {
				t.Errorf("shape %d after %d pieces: %q, %v", shape, len(pieces), got.text, e)
			}
		}
	}
}

// TestNoResponsesThere checks the advice for an endpoint without the Responses API.
func TestNoResponsesThere(t *testing.T) {
	c := newClient(t, openai.Config{BaseURL: raw(t, 404, nil, "404 page not found"), API: "responses"})
	if e := failure(t, generate(t, c, hi()), llm.ErrBadRequest); !strings.Contains(e.Message, "set api: chat") {
		t.Errorf("the error is %v", e)
	}
}
