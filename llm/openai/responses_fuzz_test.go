package openai

import (
	"bytes"
	"errors"
	"io"
	"net/http"
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
		for _, structured := range []bool{false, true} {
			r := newRepair(io.NopCloser(bytes.NewReader(body)), &responseFormat{}, http.Header{}, "http://localhost/v1/responses")
			a := answer{structured: structured, whole: true}
			ended := false
			for {
				p, err := r.next()
				if _, ok := errors.AsType[*llm.Error](err); err != nil && !errors.Is(err, io.EOF) && !ok {
					t.Fatalf("error %T %v, want an *llm.Error", err, err)
				}
				if err != nil {
					break
				}
				if _, err := p.addTo(&a); err != nil {
					return
				}
				ended = ended || p.(*event).Type == openai.ResponseStreamEventCompleted
			}
			if a.judge() == nil && !ended {
				t.Fatalf("%q is a complete answer", body)
			}
		}
	})
}
