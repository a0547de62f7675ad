package gemini

import (
	"cmp"
	"encoding/json"
	"math"

	"google.golang.org/genai"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// function is the function that the model has to call with [llm.StructuredTools].
const function = "decide"

func (c *Client) contents(r *llm.Request) []*genai.Content {
	var types []string
	if c.images {
		types = google.Images
	}
	var all []*genai.Content
	for _, m := range r.Messages {
		role := genai.RoleUser
		if m.Role == llm.RoleAssistant {
			role = genai.RoleModel
		}
		content := &genai.Content{Role: role}
		for _, p := range m.Showing(types...).Parts {
			part := &genai.Part{Text: cmp.Or(p.Text, google.EmptyText)}
			if p.Image != nil {
				part = &genai.Part{InlineData: &genai.Blob{MIMEType: p.Image.Type, Data: p.Image.Data}}
			}
			content.Parts = append(content.Parts, part)
		}
		all = append(all, content)
	}
	return all
}

// config returns the rest of the request. It is used for one call only, since the SDK modifies it.
func (c *Client) config(r *llm.Request) (*genai.GenerateContentConfig, error) {
	config := &genai.GenerateContentConfig{
		MaxOutputTokens: int32(max(0, min(r.MaxTokens, math.MaxInt32))),
		// The SDK would continue an interrupted stream by itself.
		AutomaticContinuation: new(false),
		ThinkingConfig:        c.thinking,
	}
	if r.System != "" {
		config.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: r.System}}}
	}
	if r.Temperature != nil {
		config.Temperature = new(float32(*r.Temperature))
	}
	if r.Schema == nil || c.mode == llm.StructuredPrompt {
		return config, nil
	}
	if !json.Valid(r.Schema) {
		return nil, &llm.Error{Kind: llm.ErrBadRequest, Provider: c.name, Model: c.model, Message: "the schema is not JSON"}
	}
	// The SDK decodes a schema into a map, and so loses the order of its properties, in which the model writes. So the schema is inserted unchanged
	// afterwards.
	place := func(put func(body map[string]any)) {
		config.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
			put(body)
			return body
		}}
	}
	switch c.mode {
	case llm.StructuredTools:
		config.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: function}}}}
		config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{
			Mode: genai.FunctionCallingConfigModeAny, AllowedFunctionNames: []string{function},
		}}
		place(func(body map[string]any) {
			body["tools"] = []any{map[string]any{"functionDeclarations": []any{map[string]any{
				"name": function, "description": "Reply with a decision.", "parametersJsonSchema": r.Schema,
			}}}}
		})
	case llm.StructuredSchema:
		config.ResponseMIMEType = "application/json"
		place(func(body map[string]any) {
			generation, ok := body["generationConfig"].(map[string]any)
			if !ok {
				generation = map[string]any{}
				body["generationConfig"] = generation
			}
			generation["responseJsonSchema"] = r.Schema
		})
	case llm.StructuredObject:
		config.ResponseMIMEType = "application/json"
	}
	return config, nil
}
