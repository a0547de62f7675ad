package gemini_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
)

// TestAlive checks that each response yields a chunk, even without text, so that the model does not seem silent.
func TestAlive(t *testing.T) {
	const thought = `data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"}}]}` + "\n\n"
	for name, c := range map[string]struct {
		mode llm.Structured
		body string
		want []string
	}{
		"thoughts":             {"", thought + thought + part("a") + end, []string{"", "", "a", "."}},
		"nothing":              {"", "data: {}\n\n" + part("a") + end, []string{"", "a", "."}},
		"text in mode tools":   {llm.StructuredTools, part("a") + end, []string{"", "", "a."}},
		"a call in mode tools": {llm.StructuredTools, part("a") + candidateOf(`{"functionCall":{"name":"decide","args":{}}}`, "STOP"), []string{"", "{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := asking(t, says(200, nil, strings.NewReader(c.body)), func(cfg *gemini.Config) { cfg.Structured = c.mode })
			r := hello()
			r.Schema = llm.DecisionSchema(&llm.Turn{})
			var got []string
			for chunk, err := range client.Generate(t.Context(), r) {
				if err != nil {
					t.Fatal(err)
				}
				if !chunk.Done {
					got = append(got, chunk.Text)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the texts of the chunks (-want +got):\n%s", diff)
			}
		})
	}
}
