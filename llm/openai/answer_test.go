package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// delta returns a frame of one choice.
func delta(d string) string { return `{"choices":[{"index":0,"delta":` + d + `}]}` }

// end returns the last frame.
func end(reason string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason)
}

// TestCalls checks the ways in which endpoints split a function call.
func TestCalls(t *testing.T) {
	const want = `{"kind":"respond"}`
	call := func(s string) string { return delta(`{"tool_calls":[` + s + `]}`) }
	for _, tt := range []struct {
		name   string
		frames []string
	}{
		{"OpenAI", []string{
			call(`{"index":0,"id":"a","type":"function","function":{"name":"decide","arguments":""}}`),
			call(`{"index":0,"function":{"arguments":"{\"kind\":"}}`), call(`{"index":0,"function":{"arguments":"\"respond\"}"}}`),
		}},
		{"no index", []string{
			call(`{"id":"a","function":{"name":"decide","arguments":"{\"kind\":"}}`), call(`{"function":{"arguments":"\"respond\"}"}}`),
		}},
		{"a new id in each piece", []string{
			call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"{\"kind\":"}}`), call(`{"index":0,"id":"b","function":{"arguments":"\"respond\"}"}}`),
		}},
		{"the name in each piece", []string{
			call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"{\"kind\":"}}`), call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"\"respond\"}"}}`),
		}},
		{"two by index, in turns", []string{
			call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"{\"kind\":"}},{"index":1,"id":"b","function":{"name":"decide","arguments":"{\"kind\":"}}`),
			call(`{"index":1,"function":{"arguments":"\"refuse\"}"}},{"index":0,"function":{"arguments":"\"respond\"}"}}`),
		}},
		{"two of the same index", []string{
			call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"{\"kind\":\"respond\"}"}}`), call(`{"index":0,"id":"b","function":{"name":"decide","arguments":"{\"kind\":"}}`),
			call(`{"index":0,"function":{"arguments":"\"refuse\"}"}}`),
		}},
		{"two without index", []string{
			call(`{"id":"a","function":{"name":"decide","arguments":"{\"kind\":\"respond\"}"}}`), call(`{"id":"b","function":{"name":"decide","arguments":"{\"kind\":\"refuse\"}"}}`),
		}},
		{"the first is not number 0", []string{
			call(`{"index":1,"id":"a","function":{"name":"decide","arguments":"{\"kind\":\"respond\"}"}}`), call(`{"index":2,"id":"b","function":{"name":"decide","arguments":"{}"}}`),
		}},
		{"text around", []string{delta(`{"content":"Well, "}`), call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"{\"kind\":\"respond\"}"}}`), delta(`{"content":"done."}`)}},
		{"text alone", []string{delta(`{"content":"{\"kind\":"}`), delta(`{"content":"\"respond\"}"}`)}},
		{"another choice", []string{
			`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"z","function":{"name":"decide","arguments":"no"}}]}}]}`,
			call(`{"index":0,"id":"a","function":{"name":"decide","arguments":"{\"kind\":\"respond\"}"}}`),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := raw(t, 200, nil, stream(append(tt.frames, end("tool_calls"))...))
			res := generate(t, newClient(t, openai.Config{BaseURL: base, Structured: llm.StructuredTools}), decide())
			if res.err != nil || res.text != want || !res.done.Done {
				t.Errorf("Generate = %+v, want %s", res, want)
			}
		})
	}
}

// TestNoCall checks that the text that is kept while a call may still come is bounded.
func TestNoCall(t *testing.T) {
	piece := delta(`{"content":"` + strings.Repeat("x", 300<<10) + `"}`)
	base := raw(t, 200, nil, stream(piece, piece, piece, piece, end("stop")))
	failure(t, generate(t, newClient(t, openai.Config{BaseURL: base, Structured: llm.StructuredTools}), decide()), llm.ErrLength)
}

// TestEndings checks the result of an answer by its finish reason. The usage comes after the end.
func TestEndings(t *testing.T) {
	text := delta(`{"content":"Hello."}`)
	usage := `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
	for _, tt := range []struct {
		name   string
		frames []string
		err    error // nil for "Hello."
		says   string
	}{
		{"stop", []string{text, end("stop")}, nil, ""},
		{"unknown reason", []string{text, end("eos")}, nil, ""},
		{"length", []string{text, end("length")}, llm.ErrLength, "max_tokens"},
		{"length of Mistral", []string{text, end("model_length")}, llm.ErrLength, ""},
		{"filter", []string{text, end("content_filter")}, llm.ErrRefused, "filter"},
		{"refusal", []string{delta(`{"refusal":"I will "}`), delta(`{"refusal":"not."}`), end("stop")}, llm.ErrRefused, "I will not."},
		{"refusal and text", []string{text, delta(`{"refusal":"I will not."}`), end("stop")}, llm.ErrRefused, "I will not."},
		{"abort", []string{text, end("abort")}, llm.ErrTruncated, ""},
		{"no resources", []string{text, end("insufficient_system_resource")}, llm.ErrTruncated, ""},
		{"network", []string{text, end("network_error")}, llm.ErrTruncated, ""},
		{"window", []string{text, end("model_context_window_exceeded")}, llm.ErrLength, "window"},
		{"sensitive", []string{text, end("sensitive")}, llm.ErrRefused, "filter"},
		{"recitation", []string{text, end("RECITATION")}, llm.ErrRefused, ""},
		{"prohibited", []string{text, end("PROHIBITED_CONTENT")}, llm.ErrRefused, ""},
		{"block list", []string{text, end("BLOCKLIST")}, llm.ErrRefused, ""},
		{"personal data", []string{text, end("SPII")}, llm.ErrRefused, ""},
		{"filter with a reason", []string{text, end("content_filter: RECITATION")}, llm.ErrRefused, ""},
		{"unreadable call", []string{end("function_call_filter: MALFORMED_FUNCTION_CALL")}, llm.ErrEmpty, "function call"},
		{"nothing", []string{end("stop")}, llm.ErrEmpty, ""},
		{"thoughts alone", []string{delta(`{"reasoning_content":"Hm."}`), end("stop")}, llm.ErrEmpty, ""},
		{"an unreadable piece", []string{usage, delta(`{"content":{"text":"Hello."}}`), end("stop")}, llm.ErrUnavailable, "cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := raw(t, 200, map[string]string{"X-Request-Id": "req-1"}, stream(append(tt.frames, usage)...))
			res := generate(t, newClient(t, openai.Config{BaseURL: base}), hi())
			want := llm.Usage{Input: 7, Output: 3}
			if tt.err == nil {
				if res.err != nil || res.text != "Hello." || res.done.Usage != want {
					t.Errorf("Generate = %+v", res)
				}
				return
			}
			e := failure(t, res, tt.err)
			if !strings.Contains(e.Message, tt.says) || e.Usage != want || e.RequestID != "req-1" || e.Provider != "openai" || e.Model != llmtest.Model {
				t.Errorf("the error is %+v, want one that says %q and has the usage %+v", e, tt.says, want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		name, usage string
		want        llm.Usage
	}{
		{"plain", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}`, llm.Usage{Input: 10, Cached: 8, Output: 5}},
		{"thoughts within", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":4}}`, llm.Usage{Input: 10, Output: 5, Reasoning: 4}},
		{"thoughts beside", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}`, llm.Usage{Input: 10, Output: 25, Reasoning: 20}},
		{"no total", `{"prompt_tokens":10,"completion_tokens":5}`, llm.Usage{Input: 10, Output: 5}},
		{"more cached than read", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":80}}`, llm.Usage{Input: 10, Cached: 10, Output: 5}},
		{"nonsense", `{"prompt_tokens":-10,"completion_tokens":-5,"total_tokens":-15,"prompt_tokens_details":{"cached_tokens":-8}}`, llm.Usage{}},
		{"growing", `{"prompt_tokens":10,"completion_tokens":1}}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}`, llm.Usage{Input: 10, Output: 2}},
		{"empty last", `{"prompt_tokens":10,"completion_tokens":1}}` + "\n\n" + `data: {"choices":[],"usage":{}`, llm.Usage{Input: 10, Output: 1}},
		{"null", `null`, llm.Usage{}},
	} {
		base := raw(t, 200, nil, stream(delta(`{"content":"ok"}`), end("stop"), `{"choices":[],"usage":`+tt.usage+`}`))
		if res := generate(t, newClient(t, openai.Config{BaseURL: base}), hi()); res.err != nil || res.done.Usage != tt.want {
			t.Errorf("%s: usage %+v, error %v, want %+v", tt.name, res.done.Usage, res.err, tt.want)
		}
	}
}

// TestAlive checks that anything that the endpoint sends shows that the model is working.
func TestAlive(t *testing.T) {
	for _, tt := range []struct{ name, says string }{
		{"thoughts", "data: " + delta(`{"reasoning_content":"Hm."}`) + "\n\n"},
		{"thoughts by another name", "data: " + delta(`{"content":"","reasoning":"Hm."}`) + "\n\n"},
		{"empty delta", "data: " + delta(`{"content":""}`) + "\n\n"},
		{"comment", ": PROCESSING\n\n"},
		{"ping", "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
	} {
		base := raw(t, 200, nil, strings.Repeat(tt.says, 3)+stream(delta(`{"content":"Hello."}`), end("stop")))
		for mode, want := range map[llm.Structured]int{llm.StructuredSchema: 4, llm.StructuredTools: 5} { // the end, and text beside the call
			res := generate(t, newClient(t, openai.Config{BaseURL: base, Structured: mode}), decide())
			if res.err != nil || res.text != "Hello." || res.silent != want {
				t.Errorf("%s, %s: Generate = %+v, want Hello. and %d silent chunks", tt.name, mode, res, want)
			}
		}
	}
}

// TestWhole checks an endpoint that does not stream.
func TestWhole(t *testing.T) {
	for mode, message := range map[llm.Structured]string{
		llm.StructuredSchema: `{"role":"assistant","content":"{\"kind\":1}"}`,
		llm.StructuredTools:  `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"decide","arguments":"{\"kind\":1}"}},{"id":"b","type":"function","function":{"name":"decide","arguments":"{}"}}]}`,
	} {
		base := raw(t, 200, map[string]string{"Content-Type": "application/json"},
			`{"id":"1","object":"chat.completion","model":"mm","choices":[{"index":0,"message":`+message+`,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
		res := generate(t, newClient(t, openai.Config{BaseURL: base, Structured: mode}), decide())
		want := llm.Chunk{Done: true, Model: "mm", Usage: llm.Usage{Input: 7, Output: 3}}
		if res.err != nil || res.text != `{"kind":1}` || res.done != want {
			t.Errorf("%s: Generate = %+v", mode, res)
		}
	}
	base := raw(t, 200, nil, `{"object":"chat.completion","choices":[]}`)
	failure(t, generate(t, newClient(t, openai.Config{BaseURL: base}), hi()), llm.ErrEmpty)
}
