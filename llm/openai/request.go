package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	schemaName   = "decision"
	functionName = "decide"
	// emptyText replaces an empty message, which endpoints reject.
	emptyText = "(empty)"
	// maxCacheKey is the maximum length of prompt_cache_key in characters; endpoints reject requests with a longer one.
	maxCacheKey = 64
)

// request converts r for the SDK, without its messages, and returns the fields that the SDK cannot send.
func (c *Client) request(r *llm.Request) (openai.ChatCompletionRequest, map[string]any, error) {
	req := openai.ChatCompletionRequest{Model: c.cfg.Model, ReasoningEffort: c.cfg.ReasoningEffort}
	if !c.cfg.NoStreamUsage {
		req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if c.cfg.MaxTokensField == maxTokens {
		//lint:ignore SA1019 what is not OpenAI's mostly knows no other field
		req.MaxTokens = r.MaxTokens //nolint:staticcheck // as above
	} else {
		req.MaxCompletionTokens = r.MaxTokens
	}
	if r.Schema != nil {
		if !json.Valid(r.Schema) {
			return req, nil, errors.New("the schema is no JSON")
		}
		c.structure(&req, r.Schema)
	}
	extra := make(map[string]any)
	if t := r.Temperature; t != nil {
		if req.Temperature = float32(*t); req.Temperature == 0 {
			extra["temperature"] = 0 // which the SDK treats as unset
		}
	}
	if *c.cfg.PromptCacheKey && r.CacheKey != "" {
		extra["prompt_cache_key"] = cacheKey(r.CacheKey)
	}
	return req, extra, nil
}

// images are the types of images that OpenAI's models accept.
var images = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// shown returns m without the images that the model does not accept.
func (c *Client) shown(m llm.Message) llm.Message {
	if c.cfg.Images {
		return m.Showing(images...)
	}
	return m.Showing()
}

// structure asks for an answer that follows schema, in the configured way.
func (c *Client) structure(req *openai.ChatCompletionRequest, schema json.RawMessage) {
	switch c.cfg.Structured {
	case llm.StructuredSchema:
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: schemaName, Schema: schema, Strict: true},
		}
	case llm.StructuredObject:
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
	case llm.StructuredTools:
		f := function(schema)
		req.Tools = []openai.Tool{{Type: openai.ToolTypeFunction, Function: &f}}
		req.ToolChoice = openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: functionName}}
		if p := c.cfg.ParallelToolCalls; p != nil {
			req.ParallelToolCalls = *p
		}
	}
}

// function returns the function whose arguments are the answer.
func function(schema json.RawMessage) openai.FunctionDefinition {
	return openai.FunctionDefinition{Name: functionName, Description: "Take the decision. Call this exactly once.", Strict: true, Parameters: schema}
}

// cacheKey returns key, or a hash of a key that is too long.
func cacheKey(key string) string {
	if len(key) <= maxCacheKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// refusedHere returns the error for a request that was not sent: the SDK knows some models, and rejects what OpenAI would reject. It says what to
// set.
func refusedHere(err error, cfg *Config) *llm.Error {
	e := &llm.Error{Kind: llm.ErrBadRequest, Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		e.Message = "this model takes no tools on chat completions: leave api out, or set structured: json_schema"
	case errors.Is(err, openai.ErrReasoningModelMaxTokensDeprecated):
		e.Message = "this model does not take max_tokens: set max_tokens_field: max_completion_tokens"
	case errors.Is(err, openai.ErrReasoningModelLimitationsOther), errors.Is(err, openai.ErrReasoningSamplingUnsupported):
		e.Message = "this model takes no temperature while it thinks: leave temperature out"
	case errors.Is(err, openai.ErrReasoningEffortUnsupported):
		e.Message = fmt.Sprintf("this model does not take reasoning_effort: %s: leave it out, or set low, medium or high", cfg.ReasoningEffort)
	case errors.Is(err, openai.ErrChatCompletionInvalidModel):
		e.Message = "this model is for completions and not for chat: set another model"
	}
	return e
}
