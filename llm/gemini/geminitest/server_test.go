package geminitest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/gemini/geminitest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

const (
	geminiURL = "/v1beta/models/m:streamGenerateContent?alt=sse"
	vertexURL = "/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse"
	hello     = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`
)

// post sends body with a key of each kind, and returns the status and the body of the response.
func post(t *testing.T, url, body string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(got)
}

var (
	keyHeader   = http.Header{"X-Goog-Api-Key": {"k"}}
	tokenHeader = http.Header{"Authorization": {"Bearer k"}}
)

// TestRefused checks that invalid requests are rejected as by Google.
func TestRefused(t *testing.T) {
	server := geminitest.Serve(t, func(*llmtest.Call) *llmtest.Reply {
		t.Error("the handler was asked")
		return &llmtest.Reply{}
	})
	for name, c := range map[string]struct {
		path, body string
		header     http.Header
		status     int
		says       string
	}{
		"no key":            {geminiURL, hello, nil, 403, "PERMISSION_DENIED"},
		"token at Gemini":   {geminiURL, hello, tokenHeader, 403, "PERMISSION_DENIED"},
		"no token":          {vertexURL, hello, nil, 401, "UNAUTHENTICATED"},
		"key at Vertex AI":  {vertexURL, hello, keyHeader, 401, "UNAUTHENTICATED"},
		"no stream":         {strings.Replace(geminiURL, "streamG", "g", 1), hello, keyHeader, 404, "<title>"},
		"no events":         {strings.TrimSuffix(geminiURL, "?alt=sse"), hello, keyHeader, 404, "<title>"},
		"another path":      {"/v1/chat/completions", hello, keyHeader, 404, "<title>"},
		"no JSON":           {geminiURL, "{", keyHeader, 400, "INVALID_ARGUMENT"},
		"no contents":       {geminiURL, `{}`, keyHeader, 400, "contents"},
		"unknown field":     {geminiURL, `{"messages":[]}`, keyHeader, 400, "messages"},
		"unknown role":      {geminiURL, strings.Replace(hello, "user", "assistant", 1), keyHeader, 400, "valid role"},
		"empty part":        {geminiURL, `{"contents":[{"role":"user","parts":[{}]}]}`, keyHeader, 400, "contents[0]"},
		"schema alone":      {geminiURL, strings.TrimSuffix(hello, "}") + `,"generationConfig":{"responseJsonSchema":{}}}`, keyHeader, 400, "mime type"},
		"mode without tool": {geminiURL, strings.TrimSuffix(hello, "}") + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`, keyHeader, 400, "function_declarations"},
		"too much":          {geminiURL, strings.Repeat(" ", 21<<20), keyHeader, 400, "payload size exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			if status, body := post(t, server.URL+c.path, c.body, c.header); status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("got %d %q, want %d with %q", status, body, c.status, c.says)
			}
		})
	}
}

// TestAnswer streams one event for each piece, and one for the end.
func TestAnswer(t *testing.T) {
	for path, header := range map[string]http.Header{geminiURL: keyHeader, vertexURL: tokenHeader} {
		server := geminitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
			if c.Model != "m" || c.Key != "k" || !c.Stream || len(c.Messages) != 1 || c.Messages[0].Text() != "hello" {
				t.Errorf("call = %+v", c)
			}
			return &llmtest.Reply{Pieces: []string{"a", "b"}}
		})
		status, body := post(t, server.URL+path, hello, header)
		events := strings.Split(strings.TrimSuffix(body, "\r\n\r\n"), "\r\n\r\n")
		if status != 200 || len(events) != 3 {
			t.Fatalf("got %d with %d events, want 200 with 3:\n%s", status, len(events), body)
		}
		for i, e := range events {
			data, ok := strings.CutPrefix(e, "data: ")
			if !ok || !json.Valid([]byte(data)) {
				t.Errorf("event %d is %q, want data that is JSON", i, e)
			}
			if got, want := bytes.Contains([]byte(data), []byte(`"finishReason":"STOP"`)), i == 2; got != want {
				t.Errorf("event %d has a finish reason: %v, want %v", i, got, want)
			}
		}
	}
}
