package openaitest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer sk-1")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestRefuses checks that a request that OpenAI would reject does not reach the handler.
func TestRefuses(t *testing.T) {
	server := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
		t.Error("the handler was called")
		return &llmtest.Reply{}
	})
	const user = `"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct{ body, says string }{
		{`{`, "parse"},
		{`{"model":"m",` + user + `,"colour":"red"}`, "colour"},
		{`{` + user + `}`, "model"},
		{`{"model":"m","messages":[]}`, "empty array"},
		{`{"model":"m","messages":[{"role":"boss","content":"hi"}]}`, "role"},
		{`{"model":"m","messages":[{"role":"user","content":""}]}`, "content"},
		{`{"model":"m","messages":[{"role":"user"}]}`, "content"},
		{`{"model":"m","messages":[{"role":"tool","content":"","tool_call_id":"a"}]}`, "content"},
		{`{"model":"m","messages":[{"role":"tool","content":"x"}]}`, "tool_call_id"},
		{`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}]}]}`, "arguments"},
		{`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "tool_calls"},
		{`{"model":"m",` + user + `,"max_tokens":1,"max_completion_tokens":1}`, "at the same time"},
		{`{"model":"m",` + user + `,"max_tokens":0}`, "minimum"},
		{`{"model":"m",` + user + `,"temperature":3}`, "temperature"},
		{`{"model":"m",` + user + `,"stream_options":{"include_usage":true}}`, "stream_options"},
		{`{"model":"m",` + user + `,"prompt_cache_key":"` + strings.Repeat("c", 65) + `"}`, "prompt_cache_key"},
		{`{"model":"m",` + user + `,"parallel_tool_calls":true}`, "parallel_tool_calls"},
		{`{"model":"m",` + user + `,"response_format":{"type":"yaml"}}`, "yaml"},
		{`{"model":"m",` + user + `,"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`, "name"},
		{`{"model":"m",` + user + `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{}}}}}`, "additionalProperties"},
		{`{"model":"m",` + user + `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{}},"additionalProperties":false}}}}`, "required"},
		{`{"model":"m",` + user + `,"tools":[{"type":"function","function":{"name":"a b","parameters":{}}}]}`, "name"},
		{`{"model":"m",` + user + `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`, "not found"},
	} {
		if status, body := post(t, server.URL+"/v1/chat/completions", tt.body); status != 400 || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want 400 and %q", tt.body, status, body, tt.says)
		}
	}
	for _, path := range []string{"/chat/completions", "/v1/completions", "/openai/deployments/m/chat/completions"} {
		if status, _ := post(t, server.URL+path, `{"model":"m",`+user+`}`); status != 404 {
			t.Errorf("POST %s = %d, want 404", path, status)
		}
	}
}

// TestWhole is for a request that does not want a stream.
func TestWhole(t *testing.T) {
	var got *llmtest.Call
	server := openaitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
		got = c
		return &llmtest.Reply{Pieces: []string{"{", "}"}, Before: "Well.", Second: "[]", Usage: llm.Usage{Input: 5, Cached: 4, Output: 2}}
	})
	_, body := post(t, server.URL+"/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},`+
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"x","tool_call_id":"a"}],`+
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}],"tool_choice":"auto"}`)
	want := &llmtest.Call{
		Model: "m", System: "Be brief.", Mode: llm.StructuredTools, Key: "sk-1", Gone: got.Gone,
		Messages: []llm.Message{llm.User("hi"), {Role: "assistant"}, {Role: "tool", Parts: []llm.Part{{Text: "x"}}}},
		Schema:   json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`),
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b <-chan struct{}) bool { return a == b })); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
	var answer struct {
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	c := answer.Choices[0]
	if c.Message.Content != "Well." || len(c.Message.ToolCalls) != 2 || c.Message.ToolCalls[0].Function.Arguments != "{}" || c.FinishReason != "tool_calls" || answer.Usage.Total != 7 {
		t.Errorf("the answer is %s", body)
	}
}
