package anthropic_test

import (
	"net/http/httptest"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/anthropic"
	"github.com/cortex-orchestrator/cortex/llm/anthropic/anthropictest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// dial returns a client of the server at url.
func dial(t testing.TB, url string, o llmtest.Options, change ...func(*anthropic.Config)) llm.Client {
	t.Helper()
	cfg := anthropic.Config{Model: llmtest.Model, BaseURL: url, Key: o.Key, Structured: o.Mode, Images: o.Images}
	for _, f := range change {
		f(&cfg)
	}
	c, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnthropicAPI(t *testing.T) {
	llmtest.Run(t, llmtest.Wire{
		Dial: func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
			return dial(t, anthropictest.Serve(t, h).URL, o)
		},
		Down: func(t *testing.T, o llmtest.Options) llm.Client {
			s := httptest.NewServer(nil)
			s.Close()
			return dial(t, s.URL, o)
		},
		Modes: []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredPrompt},
		Lacks: []llmtest.Feature{llmtest.NoCacheKey, llmtest.NoRefusal, llmtest.NoReset, llmtest.NoRetryInfo, llmtest.NoUnlimited},
	})
}
