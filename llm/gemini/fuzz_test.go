package gemini_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
)

// FuzzStream reads arbitrary bodies: the answer is complete only if the endpoint said so, and otherwise ends with one error.
func FuzzStream(f *testing.F) {
	f.Add(part("a")+end, true)
	f.Add(part("a")+"data: {\"error\":{\"code\":503}}\n\n", false)
	f.Add("data: {\"candidates\":[null,{\"content\":{\"parts\":[null]}}]}\n\n", false)
	f.Add("[{\"error\":{}}]", false)
	f.Add(": x\r\nevent: y\r\ndata: {\r\ndata: }\r\n\r\n", true)
	f.Add(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":1}}}]},"finishReason":"STOP"}]}`, true)
	f.Add(`data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":-1}}`, false)
	f.Fuzz(func(t *testing.T, body string, ok bool) {
		status := 200
		if !ok {
			status = 500
		}
		for _, status := range []int{200, status} {
			dones, fails := 0, 0
			for chunk, err := range asking(t, says(status, nil, strings.NewReader(body))).Generate(t.Context(), hello()) {
				switch {
				case err != nil:
					fails++
					asError(t, err, err.(*llm.Error).Kind)
				case chunk.Done:
					dones++
					if !strings.Contains(strings.ToLower(body), "finishreason") && !strings.Contains(body, `\u`) {
						t.Errorf("%q is taken for complete", body)
					}
				}
			}
			if dones+fails != 1 {
				t.Errorf("%d Done and %d errors, want one of them", dones, fails)
			}
		}
	})
}
