package openaitest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// responseRequest has the known fields of a request to the Responses API. Like OpenAI, the server rejects unknown ones.
type responseRequest struct {
	Model           string       `json:"model"`
	Input           []inputItem  `json:"input"`
	Stream          bool         `json:"stream"`
	Store           *bool        `json:"store"`
	MaxOutputTokens *int         `json:"max_output_tokens"`
	Temperature     *float64     `json:"temperature"`
	Text            *textConfig  `json:"text"`
	Tools           []schemaTool `json:"tools"`
	ToolChoice      *struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
	ParallelToolCalls *bool `json:"parallel_tool_calls"`
	Reasoning         *struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	PromptCacheKey string `json:"prompt_cache_key"`
}

// inputItem is a message. The server knows no other items.
type inputItem struct {
	Role    string       `json:"role"`
	Content inputContent `json:"content"`
}

// inputContent is a string, or a list of parts.
type inputContent []inputPart

type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Detail   string `json:"detail"`
	ImageURL string `json:"image_url"`
}

type textConfig struct {
	Format *schemaTool `json:"format"`
}

// schemaTool is a function, or the format of the text.
type schemaTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

// plainText is the type of a content that is a string.
const plainText = "text"

func (c *inputContent) UnmarshalJSON(b []byte) error {
	return decodeParts(b, (*[]inputPart)(c), func(text string) inputPart { return inputPart{Type: plainText, Text: text} })
}

// parts returns the parts of a message. An error has OpenAI's message.
func (m *inputItem) parts() ([]llm.Part, error) {
	own := "input_text"
	switch m.Role {
	case "assistant":
		own = "output_text"
	case "user", "system", "developer":
	default:
		return nil, fmt.Errorf("invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'", m.Role)
	}
	var all []llm.Part
	for _, p := range m.Content {
		match := dataURL.FindStringSubmatch(p.ImageURL)
		switch {
		case (p.Type == own || p.Type == plainText && len(m.Content) == 1) && p.Text != "" && p.ImageURL == "":
			all = append(all, llm.Part{Text: p.Text})
		case p.Type != "input_image" || m.Role != "user" || p.Text != "":
			return nil, fmt.Errorf("invalid value: '%s'. Supported values are: '%s'", p.Type, own)
		case match == nil:
			return nil, errors.New("invalid 'image_url'. Expected a base64-encoded data URL with an image MIME type")
		default:
			data, err := base64.StdEncoding.DecodeString(match[2])
			if err != nil {
				return nil, errors.New("invalid 'image_url'. Expected a base64-encoded data URL")
			}
			all = append(all, llm.Part{Image: &llm.Image{Type: match[1], Data: data}})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("missing required parameter: 'content'")
	}
	return all, nil
}

// decodeResponse decodes a request to the Responses API into c. An error has OpenAI's message.
func decodeResponse(body []byte, c *llmtest.Call) error {
	var r responseRequest
	if err := llmtest.Decode(body, &r); err != nil {
		return fmt.Errorf("we could not parse the JSON body of your request: %w", err)
	}
	if err := r.check(); err != nil {
		return err
	}
	for i, m := range r.Input {
		parts, err := m.parts()
		if err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
		said := llm.Message{Role: llm.Role(m.Role), Parts: parts}
		switch m.Role {
		case "system", "developer":
			c.System += said.Text()
		default:
			c.Messages = append(c.Messages, said)
		}
	}
	c.Model, c.Stream, c.Temperature, c.CacheKey = r.Model, r.Stream, r.Temperature, r.PromptCacheKey
	if r.MaxOutputTokens != nil {
		c.MaxTokens = *r.MaxOutputTokens
	}
	switch {
	case len(r.Tools) > 0:
		c.Mode, c.Schema = llm.StructuredTools, r.Tools[0].Parameters
	case r.Text == nil || r.Text.Format == nil || r.Text.Format.Type == plainText:
	case r.Text.Format.Type == "json_schema":
		c.Mode, c.Schema = llm.StructuredSchema, r.Text.Format.Schema
	default:
		c.Mode = llm.StructuredObject
	}
	return nil
}

func (r *responseRequest) check() error {
	switch {
	case r.Model == "":
		return errors.New("missing required parameter: 'model'")
	case len(r.Input) == 0:
		return errors.New("missing required parameter: 'input'")
	case r.MaxOutputTokens != nil && *r.MaxOutputTokens < 1: // OpenAI wants 16, but other endpoints do not
		return fmt.Errorf("invalid 'max_output_tokens': integer below minimum value. Expected a value >= 1, but got %d instead", *r.MaxOutputTokens)
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2):
		return fmt.Errorf("invalid 'temperature': %v is not between 0 and 2", *r.Temperature)
	case len(r.PromptCacheKey) > 64:
		return fmt.Errorf("invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length %d instead", len(r.PromptCacheKey))
	}
	for _, t := range r.Tools {
		if t.Type != "function" || !names.MatchString(t.Name) {
			return errors.New("invalid 'tools[0].name'")
		}
		if err := checkSchema(t.Parameters); err != nil {
			return err
		}
	}
	if c := r.ToolChoice; c != nil && (c.Type != "function" || len(r.Tools) == 0 || r.Tools[0].Name != c.Name) {
		return fmt.Errorf("tool choice '%s' not found in 'tools' parameter", c.Name)
	}
	if r.Text == nil || r.Text.Format == nil {
		return nil
	}
	switch f := r.Text.Format; f.Type {
	case plainText, "json_object":
		return nil
	case "json_schema":
		if !names.MatchString(f.Name) {
			return errors.New("missing required parameter: 'text.format.name'")
		}
		return checkSchema(f.Schema)
	default:
		return fmt.Errorf("invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'", f.Type)
	}
}
