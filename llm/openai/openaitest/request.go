package openaitest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// request has the known fields. Like OpenAI, the server rejects unknown ones.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	ResponseFormat      *responseFormat `json:"response_format"`
	Tools               []tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	PromptCacheKey      string          `json:"prompt_cache_key"`
}

type message struct {
	Role       string  `json:"role"`
	Content    content `json:"content"`
	ToolCallID string  `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// content is a string, or a list of parts.
type content []part

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL *struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
}

func (c *content) UnmarshalJSON(b []byte) error {
	return decodeParts(b, (*[]part)(c), func(text string) part { return part{Type: "text", Text: text} })
}

// decodeParts decodes a list of parts, or a string, which becomes the only one.
func decodeParts[P any](b []byte, to *[]P, plain func(text string) P) error {
	if len(b) > 0 && b[0] == '[' {
		return llmtest.Decode(b, to)
	}
	var text *string
	if err := json.Unmarshal(b, &text); err != nil || text == nil {
		return err
	}
	*to = []P{plain(*text)}
	return nil
}

// dataURL matches an image of a type that OpenAI accepts.
var dataURL = regexp.MustCompile(`^data:(image/(?:png|jpeg|webp|gif));base64,(.+)$`)

// parts returns the parts of c. An error has OpenAI's message.
func (c content) parts(role string) ([]llm.Part, error) {
	var all []llm.Part
	for _, p := range c {
		switch {
		case p.Type == "text" && p.Text != "" && p.ImageURL == nil:
			all = append(all, llm.Part{Text: p.Text})
		case p.Type == "image_url" && p.ImageURL != nil && p.Text == "" && role == "user":
			match := dataURL.FindStringSubmatch(p.ImageURL.URL)
			if match == nil {
				return nil, errors.New("you uploaded an unsupported image. Please make sure your image is valid")
			}
			data, err := base64.StdEncoding.DecodeString(match[2])
			if err != nil {
				return nil, errors.New("invalid base64 image_url")
			}
			all = append(all, llm.Part{Image: &llm.Image{Type: match[1], Data: data}})
		default:
			return nil, fmt.Errorf("content: invalid part of type %q", p.Type)
		}
	}
	return all, nil
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type responseFormat struct {
	Type       string  `json:"type"`
	JSONSchema *schema `json:"json_schema"`
}

type schema struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

// names matches valid names of schemas and functions.
var names = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// decode decodes a request into c, and returns whether the stream ends with the usage. An error has OpenAI's message.
func decode(body []byte, c *llmtest.Call) (usage bool, err error) {
	var r request
	if err := llmtest.Decode(body, &r); err != nil {
		return false, fmt.Errorf("we could not parse the JSON body of your request: %w", err)
	}
	if err := r.check(); err != nil {
		return false, err
	}
	for _, m := range r.Messages {
		parts, err := m.Content.parts(m.Role)
		if err != nil {
			return false, err
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
	for _, n := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if n != nil {
			c.MaxTokens = *n
		}
	}
	switch f := r.ResponseFormat; {
	case len(r.Tools) > 0:
		c.Mode, c.Schema = llm.StructuredTools, r.Tools[0].Function.Parameters
	case f == nil || f.Type == "text":
	case f.Type == "json_schema":
		c.Mode, c.Schema = llm.StructuredSchema, f.JSONSchema.Schema
	default:
		c.Mode = llm.StructuredObject
	}
	return r.StreamOptions != nil && r.StreamOptions.IncludeUsage, nil
}

func (r *request) check() error {
	switch {
	case r.Model == "":
		return errors.New("you must provide a model parameter")
	case len(r.Messages) == 0:
		return errors.New("invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead")
	case r.MaxTokens != nil && r.MaxCompletionTokens != nil:
		return errors.New("setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported")
	case r.MaxTokens != nil && *r.MaxTokens < 1, r.MaxCompletionTokens != nil && *r.MaxCompletionTokens < 1:
		return errors.New("invalid 'max_tokens': integer below minimum value. Expected a value >= 1")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2):
		return fmt.Errorf("invalid 'temperature': %v is not between 0 and 2", *r.Temperature)
	case r.StreamOptions != nil && !r.Stream:
		return errors.New("the 'stream_options' parameter is only allowed when 'stream' is enabled")
	case len(r.PromptCacheKey) > 64:
		return fmt.Errorf("invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length %d instead", len(r.PromptCacheKey))
	case r.ParallelToolCalls != nil && len(r.Tools) == 0:
		return errors.New("'parallel_tool_calls' is only allowed when 'tools' are specified")
	}
	for i, m := range r.Messages {
		if err := m.check(); err != nil {
			return fmt.Errorf("invalid 'messages[%d]': %w", i, err)
		}
	}
	if err := r.checkFormat(); err != nil {
		return err
	}
	return r.checkTools()
}

func (m *message) check() error {
	switch m.Role {
	case "system", "developer", "user", "assistant", "tool":
	default:
		return fmt.Errorf("role: %q is not one of ['system', 'assistant', 'user', 'tool', 'developer']", m.Role)
	}
	if (len(m.Content) == 0 || m.Content[0] == part{Type: "text"}) && (m.Role != "assistant" || len(m.ToolCalls) == 0) {
		return errors.New("content: expected a string, got null")
	}
	if m.Role == "tool" && m.ToolCallID == "" {
		return errors.New("missing required parameter: 'tool_call_id'")
	}
	for _, call := range m.ToolCalls {
		if call.ID == "" || call.Type != "function" || !names.MatchString(call.Function.Name) {
			return errors.New("tool_calls: missing required parameter")
		}
		if call.Function.Arguments == nil {
			return errors.New("missing required parameter: 'tool_calls.function.arguments'")
		}
	}
	return nil
}

func (r *request) checkFormat() error {
	f := r.ResponseFormat
	if f == nil {
		return nil
	}
	switch f.Type {
	case "text", "json_object":
		return nil
	case "json_schema":
		if f.JSONSchema == nil || !names.MatchString(f.JSONSchema.Name) {
			return errors.New("missing required parameter: 'response_format.json_schema.name'")
		}
		return checkSchema(f.JSONSchema.Schema)
	}
	return fmt.Errorf("invalid value: %q. Supported values are: 'json_object', 'json_schema', and 'text'", f.Type)
}

func (r *request) checkTools() error {
	for _, t := range r.Tools {
		if t.Type != "function" || !names.MatchString(t.Function.Name) {
			return errors.New("invalid 'tools[0].function.name'")
		}
		if err := checkSchema(t.Function.Parameters); err != nil {
			return err
		}
	}
	if len(r.ToolChoice) == 0 || r.ToolChoice[0] == '"' {
		return nil
	}
	var choice struct {
		Type     string
		Function struct{ Name string }
	}
	if err := json.Unmarshal(r.ToolChoice, &choice); err != nil || choice.Type != "function" {
		return errors.New("invalid 'tool_choice'")
	}
	for _, t := range r.Tools {
		if t.Function.Name == choice.Function.Name {
			return nil
		}
	}
	return fmt.Errorf("tool choice '%s' not found in 'tools' parameter", choice.Function.Name)
}

// checkSchema rejects schemas that are not strict: all properties must be listed and required.
func checkSchema(raw json.RawMessage) error {
	var s struct {
		Type                 json.RawMessage            `json:"type"`
		Properties           map[string]json.RawMessage `json:"properties"`
		Required             []string                   `json:"required"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
		Items                json.RawMessage            `json:"items"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("invalid schema: %w", err)
	}
	if string(s.Type) == `"object"` {
		if s.AdditionalProperties == nil || *s.AdditionalProperties {
			return errors.New("invalid schema: 'additionalProperties' is required to be supplied and to be false")
		}
		if len(s.Required) != len(s.Properties) {
			return errors.New("invalid schema: 'required' is required to be supplied and to be an array including every key in properties")
		}
	}
	for _, p := range s.Properties {
		if err := checkSchema(p); err != nil {
			return err
		}
	}
	if len(s.Items) > 0 {
		return checkSchema(s.Items)
	}
	return nil
}
