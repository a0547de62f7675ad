package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// result is the result of a call.
type result struct {
	text   string
	silent int // chunks without text
	done   llm.Chunk
	err    error
}

func generate(t *testing.T, c llm.Client, r *llm.Request) result {
	t.Helper()
	var got result
	for chunk, err := range c.Generate(t.Context(), r) {
		got.text += chunk.Text
		switch {
		case err != nil:
			got.err = err
		case chunk.Done:
			got.done = chunk
		case chunk.Text == "":
			got.silent++
		}
	}
	return got
}

// failure returns the error of a call, which must be an [llm.Error] of this kind.
func failure(t *testing.T, got result, want error) *llm.Error {
	t.Helper()
	var e *llm.Error
	if !errors.As(got.err, &e) || !errors.Is(got.err, want) {
		t.Fatalf("Generate = %q, error %v, want %v", got.text, got.err, want)
	}
	return e
}

func hi() *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("hi")}}
}

func decide() *llm.Request {
	r := hi()
	r.Schema = llm.DecisionSchema(&llm.Turn{})
	return r
}

// raw starts a server that answers every request with this, and returns its base URL.
func raw(t testing.TB, status int, header map[string]string, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// stream returns a body of frames.
func stream(frames ...string) string {
	return "data: " + strings.Join(append(frames, "[DONE]"), "\n\ndata: ") + "\n\n"
}

func TestRequest(t *testing.T) {
	no, hot, cold := false, 0.75, 0.0
	answer := stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`)
	messages := `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}]`
	const usage = `"stream":true,"stream_options":{"include_usage":true}`
	schema := string(llm.DecisionSchema(&llm.Turn{}))
	tests := []struct {
		name string
		cfg  openai.Config
		r    llm.Request
		want string
		path string
		head map[string]string
	}{
		{
			name: "plain", want: `{"model":"m",` + messages + `,` + usage + `}`,
			path: "/v1/chat/completions", head: map[string]string{"Authorization": "", "Api-Key": ""},
		},
		{
			name: "key and headers", cfg: openai.Config{Key: "sk-1", Headers: map[string]string{"x-title": "Cortex", "Accept": "text/plain"}},
			head: map[string]string{"Authorization": "Bearer sk-1", "X-Title": "Cortex", "Accept": "text/plain"},
		},
		{name: "key in a header", cfg: openai.Config{Key: "sk-1", Headers: map[string]string{"Authorization": "Basic xyz"}}, head: map[string]string{"Authorization": "Basic xyz"}},
		{
			name: "Azure", cfg: openai.Config{Model: "gpt-3.5:a b", Key: "sk-1", APIVersion: "2024-10-21"}, r: llm.Request{MaxTokens: 9, CacheKey: "c"},
			want: `{"model":"gpt-3.5:a b",` + messages + `,` + usage + `,"max_completion_tokens":9}`,
			path: "/v1/openai/deployments/gpt-3.5:a%20b/chat/completions?api-version=2024-10-21",
			head: map[string]string{"Authorization": "", "Api-Key": "sk-1"},
		},
		{name: "Azure without a key", cfg: openai.Config{APIVersion: "1", Headers: map[string]string{"Authorization": "Bearer t"}}, head: map[string]string{"Api-Key": "", "Authorization": "Bearer t"}},
		{name: "token limit", r: llm.Request{MaxTokens: 9}, want: `{"model":"m",` + messages + `,` + usage + `,"max_tokens":9}`},
		{name: "token limit of OpenAI", cfg: openai.Config{MaxTokensField: "max_completion_tokens"}, r: llm.Request{MaxTokens: 9}, want: `{"model":"m",` + messages + `,` + usage + `,"max_completion_tokens":9}`},
		{name: "temperature", r: llm.Request{Temperature: &hot}, want: `{"model":"m",` + messages + `,` + usage + `,"temperature":0.75}`},
		{name: "temperature zero", r: llm.Request{Temperature: &cold}, want: `{"model":"m",` + messages + `,` + usage + `,"temperature":0}`},
		{name: "cache key not wanted", r: llm.Request{CacheKey: "c"}, want: `{"model":"m",` + messages + `,` + usage + `}`},
		{name: "cache key", cfg: openai.Config{PromptCacheKey: yes()}, r: llm.Request{CacheKey: strings.Repeat("c", 64)}, want: `{"model":"m",` + messages + `,` + usage + `,"prompt_cache_key":"` + strings.Repeat("c", 64) + `"}`},
		{name: "long cache key", cfg: openai.Config{PromptCacheKey: yes()}, r: llm.Request{CacheKey: strings.Repeat("c", 65)}, want: `{"model":"m",` + messages + `,` + usage + `,"prompt_cache_key":"b30855e510446ac34706c5acafeedefd5122fe9446b3f812db11e1ac3b4d0cf2"}`},
		{name: "no stream usage", cfg: openai.Config{NoStreamUsage: true}, want: `{"model":"m",` + messages + `,"stream":true}`},
		{name: "developer", cfg: openai.Config{SystemRole: "developer"}, want: `{"model":"m","messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"hi"}],` + usage + `}`},
		{name: "effort", cfg: openai.Config{ReasoningEffort: "low"}, want: `{"model":"m",` + messages + `,` + usage + `,"reasoning_effort":"low"}`},
		{
			name: "image", cfg: openai.Config{Images: true}, r: llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{
				{Text: "see"}, {Image: &llm.Image{Name: "a.png", Type: "image/png", Data: []byte{0xfb, 0xff}}},
			}}}},
			want: `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"see"},` +
				`{"type":"image_url","image_url":{"url":"data:image/png;base64,+/8="}}]}],` + usage + `}`,
		},
		{name: "empty message", r: llm.Request{Messages: []llm.Message{llm.User("")}}, want: `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"(empty)"}],` + usage + `}`},
		{
			name: "schema", r: llm.Request{Schema: json.RawMessage(schema)},
			want: `{"model":"m",` + messages + `,` + usage + `,"response_format":{"type":"json_schema","json_schema":{"name":"decision","strict":true,"schema":` + schema + `}}}`,
		},
		{name: "object", cfg: openai.Config{Structured: llm.StructuredObject}, r: llm.Request{Schema: json.RawMessage(schema)}, want: `{"model":"m",` + messages + `,` + usage + `,"response_format":{"type":"json_object"}}`},
		{name: "prompt", cfg: openai.Config{Structured: llm.StructuredPrompt}, r: llm.Request{Schema: json.RawMessage(schema)}, want: `{"model":"m",` + messages + `,` + usage + `}`},
		{
			name: "tools", cfg: openai.Config{Structured: llm.StructuredTools, ParallelToolCalls: &no}, r: llm.Request{Schema: json.RawMessage(schema)},
			want: `{"model":"m",` + messages + `,` + usage + `,"tools":[{"type":"function","function":{"name":"decide","description":"Take the decision. Call this exactly once.","strict":true,"parameters":` + schema + `}}],` +
				`"tool_choice":{"type":"function","function":{"name":"decide"}},"parallel_tool_calls":false}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var body []byte
			var got *http.Request
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(w, answer)
			}))
			defer server.Close()
			cfg, r := tt.cfg, tt.r
			cfg.BaseURL = server.URL + "/v1/"
			if cfg.Model == "" {
				cfg.Model = "m"
			}
			r.System = "Be brief."
			if r.Messages == nil {
				r.Messages = hi().Messages
			}
			if res := generate(t, newClient(t, cfg), &r); res.err != nil || res.text != "ok" {
				t.Fatalf("Generate = %+v", res)
			}
			if tt.want != "" {
				if diff := cmp.Diff(decoded(t, tt.want), decoded(t, string(body))); diff != "" {
					t.Errorf("the server got (-want +got):\n%s", diff)
				}
			}
			if tt.r.Schema != nil && strings.Contains(tt.want, schema) != strings.Contains(string(body), schema) {
				t.Errorf("the schema is not what it was in %s", body)
			}
			if uri := got.URL.RequestURI(); tt.path != "" && uri != tt.path {
				t.Errorf("the request went to %s, want %s", uri, tt.path)
			}
			for name, want := range tt.head {
				if v := got.Header.Get(name); v != want {
					t.Errorf("the header %s is %q, want %q", name, v, want)
				}
				if _, there := got.Header[name]; want == "" && there {
					t.Errorf("the header %s is there", name)
				}
			}
			if got.ContentLength != int64(len(body)) {
				t.Errorf("the request says it has %d bytes, and has %d", got.ContentLength, len(body))
			}
		})
	}
}

func decoded(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		cfg  openai.Config
		want string // in the error; "" for none
	}{
		{openai.Config{Model: "m"}, ""},
		{openai.Config{Model: "m", BaseURL: " https://x.openai.azure.com/openai/ ", APIVersion: "1"}, ""},
		{openai.Config{}, "model"},
		{openai.Config{Name: "mine"}, "mine: model"},
		{openai.Config{Model: "m", BaseURL: "localhost:11434"}, "base URL"},
		{openai.Config{Model: "m", BaseURL: "ftp://localhost"}, "base URL"},
		{openai.Config{Model: "m", BaseURL: "http://%zz"}, "base URL"},
		{openai.Config{Model: "m", BaseURL: "http://me:hunter22@localhost"}, "password"},
		{openai.Config{Model: "m", BaseURL: "http://localhost/v1?key=hunter22"}, "behind ?"},
		{openai.Config{Model: "m", BaseURL: "http://localhost/v1/chat/completions"}, "leave out"},
		{openai.Config{Model: "m", BaseURL: "https://x.openai.azure.com/openai/v1", APIVersion: "1"}, "API version"},
		{openai.Config{Model: "m", Structured: "yaml"}, "structured"},
		{openai.Config{Model: "m", MaxTokensField: "tokens"}, "max tokens field"},
		{openai.Config{Model: "m", SystemRole: "root"}, "system role"},
		{openai.Config{Model: "m", Key: "hunter22\n"}, "key"},
		{openai.Config{Model: "m", Headers: map[string]string{"x": "hunter22\r\n"}}, `header "x"`},
		{openai.Config{Model: "m", Headers: map[string]string{"": "x"}}, "header"},
	} {
		_, err := openai.New(tt.cfg)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("New(%+v) = error %v, want %q", tt.cfg, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "hunter22"):
			t.Errorf("New shows a secret: %v", err)
		}
	}
}

// TestVendorDefaults checks what is sent only to OpenAI, or also to Azure.
func TestVendorDefaults(t *testing.T) {
	for base, want := range map[string]string{
		"":                                       "max_completion_tokens prompt_cache_key",
		"https://eu.api.openai.com":              "max_completion_tokens prompt_cache_key",
		"https://x.openai.azure.com/openai/v1":   "max_completion_tokens",
		"https://x.openai.azure.us/openai/v1":    "max_completion_tokens",
		"https://x.openai.azure.cn/openai/v1":    "max_completion_tokens",
		"https://x.services.ai.azure.com/openai": "max_completion_tokens",
		"https://notapi.openai.com.example/v1":   "max_tokens",
		"http://localhost:11434/v1":              "max_tokens",
	} {
		var body []byte
		c := newClient(t, openai.Config{Model: "m", BaseURL: base, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body, _ = io.ReadAll(r.Body)
			return nil, errors.New("no network here")
		})}})
		r := hi()
		r.CacheKey, r.MaxTokens = "c", 9
		failure(t, generate(t, c, r), llm.ErrUnavailable)
		var got []string
		for _, field := range []string{"max_completion_tokens", "max_tokens", "prompt_cache_key"} {
			if strings.Contains(string(body), `"`+field+`"`) {
				got = append(got, field)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("base URL %q: the request has %s, want %s", base, got, want)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRefusedHere checks requests that the SDK rejects for some models.
func TestRefusedHere(t *testing.T) {
	hot := 0.5
	for _, tt := range []struct {
		name string
		cfg  openai.Config
		r    llm.Request
		want string
	}{
		{"tools", openai.Config{Model: "gpt-6-astra", API: "chat", Structured: llm.StructuredTools}, llm.Request{Schema: json.RawMessage(`{}`)}, "structured: json_schema"},
		{"token field", openai.Config{Model: "o1", MaxTokensField: "max_tokens"}, llm.Request{MaxTokens: 5}, "max_tokens_field: max_completion_tokens"},
		{"temperature", openai.Config{Model: "gpt-5-mini"}, llm.Request{Temperature: &hot}, "leave temperature out"},
		{"temperature and effort", openai.Config{Model: "gpt-6-sol"}, llm.Request{Temperature: &hot}, "leave temperature out"},
		{"effort", openai.Config{Model: "gpt-6-astra", ReasoningEffort: "none"}, llm.Request{}, "reasoning_effort: none"},
		{"completions", openai.Config{Model: "text-davinci-003"}, llm.Request{}, "set another model"},
		{"schema", openai.Config{Model: "m"}, llm.Request{Schema: json.RawMessage(`{`)}, "schema"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				t.Error("the request was sent")
				return nil, errors.New("no network here")
			})}
			tt.r.Messages = hi().Messages
			e := failure(t, generate(t, newClient(t, tt.cfg), &tt.r), llm.ErrBadRequest)
			if !strings.Contains(e.Message, tt.want) || e.Err == nil {
				t.Errorf("the error says %q and wraps %v, want %q and a cause", e.Message, e.Err, tt.want)
			}
		})
	}
}

// TestRedirect checks that nothing is sent to another server, whatever the given HTTP client does.
func TestRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		base := raw(t, status, map[string]string{"Location": elsewhere.URL + "/v1"}, "")
		for _, given := range []*http.Client{nil, {CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}} {
			e := failure(t, generate(t, newClient(t, openai.Config{BaseURL: base, Key: "sk-secret", HTTPClient: given}), hi()), llm.ErrBadRequest)
			if e.Status != status || !strings.Contains(e.Message, elsewhere.URL) {
				t.Errorf("status %d: the error has the status %d and says %q, want where it goes", status, e.Status, e.Message)
			}
		}
	}
}

// TestSecrets has an endpoint repeat all secrets of a request.
func TestSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get("Authorization") + " " + r.Header.Get("X-Secret") + " " + strings.TrimPrefix(r.Header.Get("X-Basic"), "Basic ")
		w.Header().Set("X-Request-Id", said)
		switch r.URL.Path {
		case "/page/chat/completions":
			_, _ = io.WriteString(w, "<html><title>"+strings.Repeat("wrong ", 31)+said+"</title>")
		case "/text/chat/completions":
			w.WriteHeader(400)
			_, _ = io.WriteString(w, strings.Repeat("x", 190)+" "+said)
		case "/location/chat/completions":
			w.Header().Set("Location", "https://login.example/?"+said)
			w.WriteHeader(302)
		default:
			w.WriteHeader(401)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": said, "code": said, "type": said}})
		}
	}))
	defer server.Close()
	secrets := []string{"sk:0123456789|" + strings.Repeat("x", 40), "header-value-0123", "dXNlcjpwYXNz"}
	for _, path := range []string{"/json", "/page", "/text", "/location"} {
		c := newClient(t, openai.Config{BaseURL: server.URL + path, Key: secrets[0], Headers: map[string]string{"X-Secret": secrets[1], "X-Basic": "Basic " + secrets[2]}})
		var e *llm.Error
		if res := generate(t, c, hi()); !errors.As(res.err, &e) {
			t.Fatalf("%s: Generate = %+v, want an error", path, res)
		}
		shown := e.Error() + " " + e.Message + " " + e.Code + " " + e.RequestID
		for _, s := range secrets {
			if strings.Contains(shown, s[:6]) {
				t.Errorf("%s: the error shows %s: %s", path, s, shown)
			}
		}
	}
}

func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	// The connection's error at the end of the context is not always the context's.
	c := newClient(t, openai.Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, errors.New("use of closed network connection")
	})}})
	for _, err := range c.Generate(ctx, hi()) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
	}
}
