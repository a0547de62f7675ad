package cli_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

// TestSpareTokens checks that a fallback is asked for at most its own number of tokens, and for more when that was too few.
func TestSpareTokens(t *testing.T) {
	for name, c := range map[string]struct {
		first, spare int
		want         []int // what the fallback is asked for, as long as its answers are too long
	}{
		"smaller":         {4000, 500, []int{500, 1000}},
		"larger":          {500, 4000, []int{500, 1000}},
		"as the first":    {4000, 0, []int{4000, 8000}},
		"a little larger": {3000, 4000, []int{3000, 6000}},
	} {
		t.Run(name, func(t *testing.T) {
			down := openaitest.Serve(t, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Error: &llmtest.Fault{Status: 500}} }).URL
			var got []int
			up := openaitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
				got = append(got, c.MaxTokens)
				return &llmtest.Reply{Pieces: []string{`{"kind":"respond",`}, Finish: llmtest.Length}
			}).URL
			limit := ""
			if c.spare > 0 {
				limit = fmt.Sprint("max_tokens: ", c.spare)
			}
			config := writeFile(t, "cortex.yaml", fmt.Sprintf(`
llm: main
llms:
  main: {provider: openai, model: big, base_url: "%s/v1", retries: 0, fallback: [spare], max_tokens: %d, api_key_env: A_KEY}
  spare: {provider: openai, model: small, base_url: "%s/v1", api_key_env: A_KEY, %s}
`, down, c.first, up, limit))
			t.Setenv("A_KEY", secret)
			run(t, "ask", "--data", t.TempDir(), "--config", config, "hello")
			if !slices.Equal(got, c.want) {
				t.Errorf("the spare was asked for %d tokens, want %d", got, c.want)
			}
		})
	}
}
