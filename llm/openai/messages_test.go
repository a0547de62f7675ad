package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// TestTextsArrive sends texts that JSON has to escape, and some that look like the place where messages are put.
func TestTextsArrive(t *testing.T) {
	var all strings.Builder
	for c := range 256 {
		all.WriteByte(byte(c))
	}
	texts := []string{all.String(), "\u2028 é 🙂 \u007f <b>&", `","messages":null`, "\xf0\x9f", "a\xc3", `\`, `"`}
	var got struct {
		Model    string
		Messages []struct{ Role, Content string }
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || int64(len(body)) != r.ContentLength {
			t.Errorf("request %q of %d bytes: %v", body, r.ContentLength, err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, stream(`{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`)) //nolint:errcheck // the client says so
	}))
	t.Cleanup(server.Close)
	const model = `m","messages":null,"x":"`
	c, err := openai.New(openai.Config{BaseURL: server.URL + "/v1", Model: model})
	if err != nil {
		t.Fatal(err)
	}
	r := &llm.Request{System: texts[0], Schema: json.RawMessage(`{"type":"object","properties":{"messages":{"enum":["messages",null]},"a":{"default":{"messages":null}}}}`)}
	want := []struct{ Role, Content string }{{"system", valid(texts[0])}}
	for i, text := range texts {
		role := []llm.Role{llm.RoleUser, llm.RoleAssistant}[i%2]
		r.Messages = append(r.Messages, llm.Message{Role: role, Parts: []llm.Part{{Text: text}}})
		want = append(want, struct{ Role, Content string }{string(role), valid(text)})
	}
	if done := generate(t, c, r); done.err != nil || done.text != "ok" {
		t.Fatalf("Generate = %q, error %v", done.text, done.err)
	}
	if diff := cmp.Diff(want, got.Messages); got.Model != model || diff != "" {
		t.Errorf("model %q got messages that differ (-want +got):\n%s", got.Model, diff)
	}
}

// valid returns s with a replacement for each byte that is no UTF-8.
func valid(s string) string { return string([]rune(s)) }
