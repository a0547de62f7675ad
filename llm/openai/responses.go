package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm"
)

// The values of Config.API.
const (
	apiChat      = "chat"
	apiResponses = "responses"
)

// needsResponses reports whether req, for chat completions, has to be sent to the Responses API.
func (c *Client) needsResponses(req openai.ChatCompletionRequest) bool {
	if c.cfg.API != "" {
		return c.cfg.API == apiResponses
	}
	return c.noChat.Load() || errors.Is(validate(req), openai.ErrReasoningToolsRequireResponses)
}

// validate returns what the SDK finds wrong with a request for chat completions, apart from max_tokens, which the Responses API does not have.
func validate(req openai.ChatCompletionRequest) error {
	//lint:ignore SA1019 that field
	req.MaxTokens = 0 //nolint:staticcheck // as above
	return openai.NewReasoningValidator().Validate(req)
}

// sendsToResponses reports whether err is the endpoint's error for what it does on the Responses API only, which its message names: that of models
// that have no other API, and that of functions for models that think. There is no complete list of either.
func sendsToResponses(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && (e.Status == http.StatusBadRequest || e.Status == http.StatusNotFound) && strings.Contains(e.Message, "v1/chat/completions") &&
		(strings.Contains(e.Message, "v1/responses") || strings.Contains(e.Message, "Responses API"))
}

// streamResponse makes a call of the Responses API, for a request as for chat completions, and reads the response into a.
func (c *Client) streamResponse(ctx context.Context, r *llm.Request, chat openai.ChatCompletionRequest, a *answer, yield func(text string) bool) error {
	// The Responses API rejects what chat completions reject, except functions.
	chat.Tools, chat.ToolChoice = nil, nil
	if err := validate(chat); err != nil {
		return err
	}
	a.whole = true
	call := c.caller(&responseFormat{}, nil)
	stream, err := openai.NewClientWithConfig(c.over(call)).CreateResponseStream(ctx, c.responseRequest(r))
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // there is nothing left to lose
	a.requestID = requestID(stream.Header())
	return a.read(call.answer, yield)
}

// responseRequest converts r for the SDK. The endpoint is asked to store nothing. The system prompt is a message, since an endpoint that is asked for
// an object of any schema wants to find the word JSON in the messages.
func (c *Client) responseRequest(r *llm.Request) openai.CreateResponseRequest {
	req := openai.CreateResponseRequest{Model: c.cfg.Model, Store: new(false), MaxOutputTokens: r.MaxTokens}
	var input []openai.ResponseInputMessage
	if r.System != "" {
		input = append(input, openai.ResponseInputMessage{Role: c.cfg.SystemRole, Content: r.System})
	}
	for _, m := range r.Messages {
		input = append(input, c.inputMessage(m))
	}
	req.Input = input
	if t := r.Temperature; t != nil {
		req.Temperature = new(float32(*t))
	}
	if e := c.cfg.ReasoningEffort; e != "" {
		req.Reasoning = &openai.ResponseReasoning{Effort: e}
	}
	if *c.cfg.PromptCacheKey && r.CacheKey != "" {
		req.PromptCacheKey = cacheKey(r.CacheKey)
	}
	if r.Schema != nil {
		c.structureResponse(&req, r.Schema)
	}
	return req
}

// inputMessage converts m for the SDK.
func (c *Client) inputMessage(m llm.Message) openai.ResponseInputMessage {
	m = c.shown(m)
	out := openai.ResponseInputMessage{Role: string(m.Role)}
	if len(m.Parts) == 1 && m.Parts[0].Image == nil {
		out.Content = cmp.Or(m.Parts[0].Text, emptyText)
		return out
	}
	kind := "input_text"
	if m.Role == llm.RoleAssistant {
		kind = "output_text"
	}
	parts := []any{}
	for _, p := range m.Parts {
		if p.Image != nil {
			parts = append(parts, openai.ResponseInputImage{Type: "input_image", Detail: "auto", ImageURL: dataURL(p.Image)})
			continue
		}
		parts = append(parts, openai.ResponseInputText{Type: kind, Text: cmp.Or(p.Text, emptyText)})
	}
	out.Content = parts
	return out
}

// dataURL returns an image as a URL.
func dataURL(image *llm.Image) string {
	return "data:" + image.Type + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
}

// structureResponse asks for an answer that follows schema, in the configured way.
func (c *Client) structureResponse(req *openai.CreateResponseRequest, schema json.RawMessage) {
	switch c.cfg.Structured {
	case llm.StructuredSchema:
		req.Text = &openai.ResponseTextConfig{Format: &openai.ResponseTextFormat{Type: "json_schema", Name: schemaName, Schema: schema, Strict: true}}
	case llm.StructuredObject:
		req.Text = &openai.ResponseTextConfig{Format: &openai.ResponseTextFormat{Type: "json_object"}}
	case llm.StructuredTools:
		req.Tools = []openai.ResponseTool{openai.NewResponseFunctionTool(function(schema))}
		req.ToolChoice = map[string]string{"type": "function", "name": functionName}
		req.ParallelToolCalls = c.cfg.ParallelToolCalls
	}
}
