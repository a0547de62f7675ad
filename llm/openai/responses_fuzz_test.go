package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm"
)

// FuzzResponses checks that no stream makes the Responses API's reader fail otherwise than with an [llm.Error], and that an answer is complete only
// after its last event.
func FuzzResponses(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.output_text.delta","delta":"a"}`, `{"type":"response.completed","response":{}}`, `{"type":"response.completed"}`,
		`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"x"}}}`, `{"type":"response.failed","response":{"error":"x"}}`,
		`{"type":"response.failed","response":null}`, `{"type":"response.output_item.added","item":{"type":"function_call"}}`, `{"type":"error"}`,
		`{"type":"response.function_call_arguments.delta","output_index":-1,"delta":null}`, `{"type":7,"response":[]}`, `[{"error":"x"}]`, "[[[[", "7", "\x00",
		`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},null,7]}}`,
	} {
		f.Add([]byte("event: e\ndata: " + seed + "\n\n"))
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := io.ReadAll(newRepair(io.NopCloser(bytes.NewReader(body)), &responseFormat{}, http.Header{}, "http://localhost/v1/responses"))
		if _, ok := errors.AsType[*llm.Error](err); err != nil && !ok {
			t.Fatalf("error %T %v, want an *llm.Error", err, err)
		}
		for _, structured := range []bool{false, true} {
			a := answer{structured: structured, whole: true}
			ended := false
			for line := range strings.SplitSeq(string(out), "\n\n") {
				data, ok := strings.CutPrefix(line, "data: ")
				if !ok || data == "[DONE]" {
					continue
				}
				var e openai.ResponseStreamEvent
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatalf("the SDK cannot read %q: %v", data, err)
				}
				if _, err := a.addEvent(&e); err != nil {
					return
				}
				ended = ended || e.Type == openai.ResponseStreamEventCompleted
			}
			if a.judge() == nil && !ended {
				t.Fatalf("%q is a complete answer", body)
			}
		}
	})
}
