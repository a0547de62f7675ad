package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/anthropic"
	"github.com/cortex-orchestrator/cortex/llm/anthropic/anthropictest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const key = "sk-ant-not-a-real-key-0123456789"

// ask returns the text, and the last chunk or the error.
func ask(t testing.TB, c llm.Client, r *llm.Request) (text string, done llm.Chunk, err error) {
	t.Helper()
	var b strings.Builder
	for chunk, err := range c.Generate(t.Context(), r) {
		if err != nil {
			return b.String(), done, err
		}
		b.WriteString(chunk.Text)
		done = chunk
	}
	return b.String(), done, nil
}

func hello() *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("hello")}}
}

// body returns the body of a request that a client sends.
func body(t *testing.T, r *llm.Request, change ...func(*anthropic.Config)) (sent map[string]any, raw string, header http.Header) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/v1/messages" {
			t.Errorf("the path is %s", q.URL.Path)
		}
		b, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		raw, header = string(b), q.Header
	}))
	defer server.Close()
	_, _, _ = ask(t, dial(t, server.URL, llmtest.Options{Key: key}, change...), r) // the answer is empty
	if err := json.Unmarshal([]byte(raw), &sent); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return sent, raw, header
}

// TestBreakpoints checks what the provider is asked to cache: the instructions, and the conversation without the last message, which is the only one that
// changes within a conversation.
func TestBreakpoints(t *testing.T) {
	r := hello()
	r.Messages = []llm.Message{llm.User("one"), llm.Assistant("two"), llm.User("three"), llm.Assistant("four"), llm.User("five")}
	for most := range r.Messages {
		r := *r
		r.Messages = r.Messages[:most+1]
		_, raw, _ := body(t, &r)
		var sent struct {
			System   []map[string]any
			Messages []struct{ Content []map[string]any }
		}
		if err := json.Unmarshal([]byte(raw), &sent); err != nil {
			t.Fatal(err)
		}
		if sent.System[0]["cache_control"] == nil {
			t.Error("the instructions are not cached")
		}
		for i, m := range sent.Messages {
			if got, want := m.Content[0]["cache_control"] != nil, i == most-1; got != want {
				t.Errorf("of %d messages the message %d is cached: %v, want %v", most+1, i, got, want)
			}
		}
	}
}

// TestThinking checks the settings of thinking and effort, and the tokens of an answer beside those of thoughts.
func TestThinking(t *testing.T) {
	for setting, want := range map[string]any{
		"":         nil,
		"off":      map[string]any{"type": "disabled"},
		"adaptive": map[string]any{"type": "adaptive", "display": "summarized"},
		"2048":     map[string]any{"type": "enabled", "budget_tokens": 2048., "display": "summarized"},
	} {
		r := hello()
		r.MaxTokens = 1000
		sent, _, _ := body(t, r, func(cfg *anthropic.Config) { cfg.Thinking, cfg.Effort = setting, "low" })
		if diff := cmp.Diff(want, sent["thinking"]); diff != "" {
			t.Errorf("thinking %q (-want +got):\n%s", setting, diff)
		}
		most := 1000.
		if setting == "2048" {
			most += 2048
		}
		if sent["max_tokens"] != most {
			t.Errorf("thinking %q: at most %v tokens, want %v", setting, sent["max_tokens"], most)
		}
		if diff := cmp.Diff(map[string]any{"effort": "low"}, sent["output_config"]); diff != "" {
			t.Errorf("effort (-want +got):\n%s", diff)
		}
	}
}

// TestEnvironment checks that nothing is taken from the variables of the vendor's tools, and that a header of the settings is sent.
func TestEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "of-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/nowhere")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: of the environment")
	_, _, header := body(t, hello(), func(cfg *anthropic.Config) {
		cfg.Key, cfg.BaseURL, cfg.Headers = "", cfg.BaseURL+"/v1/", map[string]string{"Authorization": "Bearer token-of-a-gateway"}
	})
	if header.Get("X-Api-Key") != "" || header.Get("X-Team") != "" || header.Get("Authorization") != "Bearer token-of-a-gateway" {
		t.Errorf("the headers are %v", header)
	}
}

// TestUsage counts what was read from the cache and written to it as parts of the input.
func TestUsage(t *testing.T) {
	want := llm.Usage{Input: 5000, Cached: 3000, CacheWrite: 1500, Output: 90, Reasoning: 60}
	server := anthropictest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
		return &llmtest.Reply{Thoughts: "Hm.", Pieces: []string{"Hello."}, Usage: want}
	})
	if _, done, err := ask(t, dial(t, server.URL, llmtest.Options{Key: key}), hello()); err != nil || done.Usage != want {
		t.Errorf("usage = %+v, error %v, want %+v", done.Usage, err, want)
	}
	// Older endpoints repeat only the output at the end.
	stream := strings.Join([]string{
		`data: {"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":1}}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`,
		`data: {"type":"message_stop"}`, "",
	}, "\n\n")
	if text, done, err := ask(t, says(t, 200, stream), hello()); err != nil || text != "a" || done.Usage != (llm.Usage{Input: 10, Cached: 3, Output: 9}) {
		t.Errorf("%q, usage %+v, error %v", text, done.Usage, err)
	}
}

// says returns a client of an endpoint that answers everything with a body.
func says(t testing.TB, status int, body string) llm.Client {
	t.Helper()
	return dial(t, "http://endpoint", llmtest.Options{Key: key}, func(cfg *anthropic.Config) {
		cfg.HTTPClient = &http.Client{Transport: endpoint(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}
	})
}

type endpoint func(*http.Request) (*http.Response, error)

func (f endpoint) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestErrors classifies the API's errors by status, type and message.
func TestErrors(t *testing.T) {
	fault := func(kind, message string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"credit":              {400, fault("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), llm.ErrQuota},
		"limit of a month":    {400, fault("invalid_request_error", "You have reached your specified API usage limits."), llm.ErrQuota},
		"billing":             {402, fault("billing_error", "Check your payment details."), llm.ErrQuota},
		"rate":                {429, fault("rate_limit_error", "This request would exceed your organization's rate limit of 50,000 input tokens per minute"), llm.ErrRateLimited},
		"window":              {400, fault("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000"), llm.ErrTooLong},
		"prompt":              {400, fault("invalid_request_error", "prompt is too long: 204923 tokens > 200000 maximum"), llm.ErrTooLong},
		"other bad request":   {400, fault("invalid_request_error", "temperature: not supported by this model"), llm.ErrBadRequest},
		"overloaded":          {529, fault("overloaded_error", "Overloaded"), llm.ErrUnavailable},
		"overloaded, in time": {200, "event: error\ndata: " + fault("overloaded_error", "Overloaded") + "\n\n", llm.ErrUnavailable},
		"rate, in time":       {200, "event: error\ndata: " + fault("rate_limit_error", "Slow down") + "\n\n", llm.ErrRateLimited},
		"unknown, in time":    {200, "event: error\ndata: " + fault("mood_error", "Not today") + "\n\n", llm.ErrUnavailable},
		"error as an answer":  {200, fault("authentication_error", "invalid x-api-key"), llm.ErrAuth},
		"page":                {200, "<html><head><title>Sign in</title></head></html>", llm.ErrUnavailable},
		"window, in the end": {
			200, `data: {"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":9}}` + "\n\n",
			llm.ErrTooLong,
		},
		"pause": {200, `data: {"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":9}}` + "\n\n", llm.ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ask(t, says(t, c.status, c.body), hello())
			var e *llm.Error
			if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Message == "" {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

// TestModels lists the endpoint's models, and explains what is none.
func TestModels(t *testing.T) {
	type lister interface {
		Models(ctx context.Context) ([]string, error)
	}
	url := anthropictest.Serve(t, nil).URL
	if got, err := dial(t, url+"/v1", llmtest.Options{Key: key}).(lister).Models(t.Context()); err != nil || !slices.Equal(got, []string{llmtest.Model}) {
		t.Errorf("models %q, error %v", got, err)
	}
	if _, err := dial(t, url, llmtest.Options{}).(lister).Models(t.Context()); !errors.Is(err, llm.ErrAuth) {
		t.Errorf("without a key: %v", err)
	}
	for body, want := range map[string]error{
		"<html>": llm.ErrUnavailable, `{"data":[{"id":"b"},{"id":" "},{"id":"a"},{"id":"b"}]}`: nil, `{"data":[` + strings.Repeat(`{"id":"x"},`, 1<<20) + `{"id":"x"}]}`: llm.ErrUnavailable,
	} {
		got, err := says(t, 200, body).(lister).Models(t.Context())
		if !errors.Is(err, want) || (want == nil && !slices.Equal(got, []string{"a", "b"})) {
			t.Errorf("%.40s: %q, error %v, want %v", body, got, err, want)
		}
	}
	if _, err := says(t, 401, `{"error":{"type":"authentication_error","message":"invalid `+key+`"}}`).(lister).Models(t.Context()); !errors.Is(err, llm.ErrAuth) || strings.Contains(err.Error(), key) {
		t.Errorf("a wrong key: %v", err)
	}
}

// TestNew rejects settings that no endpoint accepts.
func TestNew(t *testing.T) {
	for want, cfg := range map[string]anthropic.Config{
		"model: it is missing":                {},
		"structured \"json_object\"":          {Model: "m", Structured: llm.StructuredObject},
		"thinking \"much\"":                   {Model: "m", Thinking: "much"},
		"thinking \"12\"":                     {Model: "m", Thinking: "12"},
		"set structured: json_schema":         {Model: "m", Thinking: "adaptive", Structured: llm.StructuredTools},
		"leave out /v1/messages":              {Model: "m", BaseURL: "https://x/v1/messages"},
		"base URL \"ftp://x\"":                {Model: "m", BaseURL: "ftp://x"},
		"base URL \"https://a:xxxxx@x\"":      {Model: "m", BaseURL: "https://a:secret@x"},
		"key: it has a line break":            {Model: "m", Key: "a\nb"},
		"header \"X-A\": its name or its val": {Model: "m", Headers: map[string]string{"X-A": "a\nb"}},
	} {
		if _, err := anthropic.New(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestDecider makes a decision in each mode, over the wire.
func TestDecider(t *testing.T) {
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	const reply = `{"kind":"delegate","say":"Let me look.","delegations":[{"id":"1","agent":"agent_clock","skill":null,"task":"What time is it?","input":null,"depends_on":[]}],"reason":"The clock knows."}`
	for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredPrompt} {
		t.Run(string(mode), func(t *testing.T) {
			server := anthropictest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
				if last := c.Messages[len(c.Messages)-1].Text(); !strings.Contains(c.System, "agent_clock") || !strings.Contains(last, "What time is it") {
					t.Errorf("the model got the instructions\n%s\nand the message\n%s", c.System, last)
				}
				return &llmtest.Reply{Pieces: []string{reply[:30], reply[30:60], reply[60:]}, Usage: llm.Usage{Input: 100, Cached: 40, Output: 20}, Thoughts: "Hm."}
			})
			d := llm.NewDecider(dial(t, server.URL, llmtest.Options{Key: key, Mode: mode}), templates, nil)
			got, err := d.Decide(t.Context(), &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{
				User: "What time is it?", Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), MaxParallel: 4,
				Agents: []prompt.Agent{{ID: "agent_clock", Seen: true, Card: &a2a.AgentCard{Name: "Clock", Description: "tells the time"}}},
			}}, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			want := &llm.Decision{
				Kind: llm.KindDelegate, Say: "Let me look.", Reason: "The clock knows.", Model: llmtest.Model, Usage: llm.Usage{Input: 100, Cached: 40, Output: 20},
				Delegations: []llm.Delegation{{ID: "1", Agent: "agent_clock", Task: "What time is it?"}},
			}
			if diff := cmp.Diff(want, got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzStream reads arbitrary bodies: the answer is complete only if the endpoint said so, and otherwise ends with one error.
func FuzzStream(f *testing.F) {
	const delta = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}` + "\n\n"
	f.Add(delta+`data: {"type":"message_stop"}`, 200)
	f.Add(delta+"event: error\ndata: {\"type\":\"error\"}\n\n", 200)
	f.Add(`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":-1e99}}`, 200)
	f.Add(`data: {"type":"message_start","message":[null,{"usage":"x"}]}`+"\n\n"+delta, 200)
	f.Add(`data: {"type":"content_block_start","index":"x","content_block":{"type":7}}`+"\n\n", 200)
	f.Add("data: {\ndata: \"type\":\ndata: \"message_stop\"}\n\n", 200)
	f.Add("[]", 500)
	f.Fuzz(func(t *testing.T, body string, status int) {
		if status != 200 {
			status = 500
		}
		dones, fails := 0, 0
		for chunk, err := range says(t, status, body).Generate(t.Context(), hello()) {
			var e *llm.Error
			switch {
			case err != nil:
				if fails++; !errors.As(err, &e) {
					t.Errorf("error %v, want an *llm.Error", err)
				}
			case chunk.Done:
				if dones++; !strings.Contains(body, "stop") && !strings.Contains(body, `\u`) {
					t.Errorf("%q is taken for complete", body)
				}
			}
		}
		if dones+fails != 1 {
			t.Errorf("%d Done and %d errors, want one of them", dones, fails)
		}
	})
}
