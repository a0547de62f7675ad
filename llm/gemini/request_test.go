package gemini_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
)

// sent returns the body of the request for r.
func sent(t *testing.T, mode llm.Structured, r *llm.Request) []byte {
	t.Helper()
	return sentBy(t, r, func(cfg *gemini.Config) { cfg.Structured = mode })
}

// sentBy is sent for a client with other settings.
func sentBy(t *testing.T, r *llm.Request, change func(*gemini.Config)) []byte {
	t.Helper()
	var body []byte
	answer := says(200, nil, strings.NewReader(end))
	c := asking(t, func(request *http.Request) (*http.Response, error) {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			t.Error(err)
		}
		return answer(request)
	}, change)
	if _, _, err := ask(t.Context(), c, r); err != nil {
		t.Fatal(err)
	}
	return body
}

// TestSchemaAsItIs checks that the schema is sent with its properties in order, in which the model writes them.
func TestSchemaAsItIs(t *testing.T) {
	r := hello()
	r.Schema = llm.DecisionSchema(&llm.Turn{})
	for _, mode := range []llm.Structured{"", llm.StructuredSchema, llm.StructuredTools} {
		if body := sent(t, mode, r); !bytes.Contains(body, r.Schema) {
			t.Errorf("mode %q: the request has not the schema as it is:\n%s", mode, body)
		}
	}
}

// TestRequests checks the request in each mode.
func TestRequests(t *testing.T) {
	zero := 0.0
	r := &llm.Request{
		System: "Be brief.", Messages: []llm.Message{llm.User("a"), llm.Assistant("b"), llm.User("c")},
		Schema: json.RawMessage(`{"type":"object"}`), MaxTokens: 1 << 40, Temperature: &zero, CacheKey: "conversation",
	}
	said := `"systemInstruction":{"role":"user","parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}]`
	for mode, want := range map[llm.Structured]string{
		llm.StructuredSchema: `{` + said + `,"generationConfig":{"temperature":0,"maxOutputTokens":2147483647,"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`,
		llm.StructuredObject: `{` + said + `,"generationConfig":{"temperature":0,"maxOutputTokens":2147483647,"responseMimeType":"application/json"}}`,
		llm.StructuredPrompt: `{` + said + `,"generationConfig":{"temperature":0,"maxOutputTokens":2147483647}}`,
		llm.StructuredTools: `{` + said + `,"generationConfig":{"temperature":0,"maxOutputTokens":2147483647},` +
			`"tools":[{"functionDeclarations":[{"name":"decide","description":"Reply with a decision.","parametersJsonSchema":{"type":"object"}}]}],` +
			`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["decide"]}}}`,
	} {
		var got, wanted any
		if err := json.Unmarshal(sent(t, mode, r), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("mode %s: the request (-want +got):\n%s", mode, diff)
		}
	}
}

// TestEmptyMessage checks that an empty message is replaced, since the endpoint rejects an empty part.
func TestEmptyMessage(t *testing.T) {
	r := &llm.Request{Messages: []llm.Message{llm.User(""), llm.Assistant(""), llm.User("b")}}
	var got struct{ Contents any }
	if err := json.Unmarshal(sent(t, "", r), &got); err != nil {
		t.Fatal(err)
	}
	said := func(role, text string) any {
		return map[string]any{"role": role, "parts": []any{map[string]any{"text": text}}}
	}
	want := []any{said("user", "(empty)"), said("model", "(empty)"), said("user", "b")}
	if diff := cmp.Diff(any(want), got.Contents); diff != "" {
		t.Errorf("the contents (-want +got):\n%s", diff)
	}
}

// TestThinking checks the settings of thinking and effort.
func TestThinking(t *testing.T) {
	for setting, want := range map[string]string{
		"off": `"thinkingConfig":{"thinkingBudget":0}`, "adaptive": `"thinkingConfig":{"thinkingBudget":-1}`, "2048": `"thinkingConfig":{"thinkingBudget":2048}`,
		"effort": `"thinkingConfig":{"thinkingLevel":"LOW"}`,
	} {
		body := sentBy(t, hello(), func(cfg *gemini.Config) {
			if cfg.Thinking = setting; setting == "effort" {
				cfg.Thinking, cfg.Effort = "", "low"
			}
		})
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s: the request has not %s:\n%s", setting, want, body)
		}
	}
	for _, cfg := range []gemini.Config{{Thinking: "much"}, {Thinking: "off", Effort: "low"}} {
		cfg.Model, cfg.Key = "m", key
		if _, err := gemini.Dial(t.Context(), cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// TestBadRequests checks that a request that cannot be sent fails permanently.
func TestBadRequests(t *testing.T) {
	never := endpoint(func(r *http.Request) (*http.Response, error) {
		t.Error("the request was sent")
		return says(200, nil, strings.NewReader(end))(r)
	})
	r := hello()
	r.Schema = json.RawMessage(`{"type":`)
	_, _, err := ask(t.Context(), asking(t, never), r)
	asError(t, err, llm.ErrBadRequest)
	_, _, err = ask(t.Context(), asking(t, never, func(cfg *gemini.Config) { cfg.Model = "m?x=y" }), hello())
	asError(t, err, llm.ErrBadRequest)
}
