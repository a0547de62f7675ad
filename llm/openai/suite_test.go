package openai_test

import (
	"cmp"
	"context"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

// newClient returns a client whose connections end with the test.
func newClient(t testing.TB, cfg openai.Config) *openai.Client {
	t.Helper()
	cfg.Model = cmp.Or(cfg.Model, llmtest.Model)
	c, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func yes() *bool { b := true; return &b }

// TestSuite runs the suite for an endpoint other than OpenAI's, with each mode as the default, so that all cases are run with that mode.
func TestSuite(t *testing.T) {
	for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt} {
		t.Run(string(mode), func(t *testing.T) {
			llmtest.Run(t, openaitest.Wire(func(t *testing.T, url string, o llmtest.Options) llm.Client {
				return newClient(t, openai.Config{BaseURL: url + "/v1", Key: o.Key, Structured: cmp.Or(o.Mode, mode), Images: o.Images, PromptCacheKey: yes()})
			}))
		})
	}
}

// TestSuiteResponses runs the suite for the Responses API.
func TestSuiteResponses(t *testing.T) {
	for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools} {
		t.Run(string(mode), func(t *testing.T) {
			llmtest.Run(t, openaitest.Wire(func(t *testing.T, url string, o llmtest.Options) llm.Client {
				return newClient(t, openai.Config{
					BaseURL: url + "/v1", Key: o.Key, Structured: cmp.Or(o.Mode, mode), Images: o.Images, PromptCacheKey: yes(), API: "responses",
				})
			}))
		})
	}
}

// TestSuiteResponsesAzure runs the suite for the Responses API of Azure's older URLs, with tokens.
func TestSuiteResponsesAzure(t *testing.T) {
	llmtest.Run(t, openaitest.Wire(func(t *testing.T, url string, o llmtest.Options) llm.Client {
		return newClient(t, openai.Config{
			BaseURL: url, Token: fixed(o.Key), Structured: o.Mode, Images: o.Images, APIVersion: "2025-04-01-preview", PromptCacheKey: yes(), API: "responses",
		})
	}))
}

// fixed returns a source that has one token.
func fixed(token string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return token, nil }
}

// TestSuiteAzure runs the suite for Azure's older URLs, where another header has the key.
func TestSuiteAzure(t *testing.T) {
	llmtest.Run(t, openaitest.Wire(func(t *testing.T, url string, o llmtest.Options) llm.Client {
		return newClient(t, openai.Config{BaseURL: url, Key: o.Key, Structured: o.Mode, Images: o.Images, APIVersion: "2024-10-21", PromptCacheKey: yes()})
	}))
}
