package anthropictest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// request has the fields of a request that this server knows.
type request struct {
	Model        string    `json:"model"`
	MaxTokens    int       `json:"max_tokens"`
	Messages     []message `json:"messages"`
	System       []block   `json:"system"`
	Stream       bool      `json:"stream"`
	Temperature  *float64  `json:"temperature"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Thinking *struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
		Display      string `json:"display"`
	} `json:"thinking"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      bool            `json:"strict"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	ToolChoice *struct {
		Type                   string `json:"type"`
		Name                   string `json:"name"`
		DisableParallelToolUse bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type block struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	} `json:"source"`
	CacheControl *struct {
		Type string `json:"type"`
	} `json:"cache_control"`
}

// maxBreakpoints is how many points of a prompt can be marked for the cache.
const maxBreakpoints = 4

// decode decodes body into c. It returns the API's message for an invalid request, or "".
func decode(body []byte, c *llmtest.Call) (refusal string) {
	var r request
	if err := llmtest.Decode(body, &r); err != nil {
		return "The request body is not valid JSON: " + err.Error()
	}
	switch {
	case r.Model == "":
		return "model: Field required"
	case r.MaxTokens < 1:
		return "max_tokens: Field required"
	case len(r.Messages) == 0:
		return "messages: at least one message is required"
	}
	marked := 0
	for i, m := range r.Messages {
		parts, refusal := decodeBlocks(m.Content, &marked)
		if refusal != "" {
			return fmt.Sprintf("messages.%d: %s", i, refusal)
		}
		role := llm.RoleUser
		switch m.Role {
		case "user":
		case "assistant":
			role = llm.RoleAssistant
		default:
			return fmt.Sprintf("messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
		c.Messages = append(c.Messages, llm.Message{Role: role, Parts: parts})
	}
	if len(r.System) > 0 {
		parts, refusal := decodeBlocks(r.System, &marked)
		if refusal != "" {
			return "system: " + refusal
		}
		c.System = llm.Message{Parts: parts}.Text()
	}
	if marked > maxBreakpoints {
		return fmt.Sprintf("A maximum of %d blocks with cache_control may be provided. Found %d.", maxBreakpoints, marked)
	}
	c.Model, c.MaxTokens, c.Temperature, c.Stream = r.Model, r.MaxTokens, r.Temperature, r.Stream
	return r.mode(c)
}

// decodeBlocks returns the parts of a message, and counts the blocks that are marked for the cache.
func decodeBlocks(blocks []block, marked *int) (parts []llm.Part, refusal string) {
	for _, b := range blocks {
		if b.CacheControl != nil {
			if *marked++; b.CacheControl.Type != "ephemeral" {
				return nil, "cache_control.type: Input should be 'ephemeral'"
			}
		}
		switch {
		case b.Type == "text" && strings.TrimSpace(b.Text) == "":
			return nil, "text content blocks must contain non-whitespace text"
		case b.Type == "text":
			parts = append(parts, llm.Part{Text: b.Text})
		case b.Type != "image" || b.Source == nil || b.Source.Type != "base64" || len(b.Source.Data) == 0:
			return nil, "content: Input does not match any of the expected tags"
		case !slices.Contains([]string{"image/png", "image/jpeg", "image/webp", "image/gif"}, b.Source.MediaType):
			return nil, "source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
		default:
			parts = append(parts, llm.Part{Image: &llm.Image{Type: b.Source.MediaType, Data: b.Source.Data}})
		}
	}
	if len(parts) == 0 {
		return nil, "content: Field required"
	}
	return parts, ""
}

// mode sets c's mode of structured output.
func (r *request) mode(c *llmtest.Call) (refusal string) {
	thinks := r.Thinking != nil && r.Thinking.Type != "disabled"
	if thinks && r.Thinking.Type == "enabled" && (r.Thinking.BudgetTokens < 1024 || r.Thinking.BudgetTokens >= r.MaxTokens) {
		return "`max_tokens` must be greater than `thinking.budget_tokens`, which is at least 1024"
	}
	switch {
	case r.ToolChoice != nil && r.ToolChoice.Type == "tool":
		if len(r.Tools) != 1 || r.Tools[0].Name != r.ToolChoice.Name {
			return fmt.Sprintf("tool_choice: Tool '%s' not found in provided tools", r.ToolChoice.Name)
		}
		if thinks {
			return "Thinking may not be enabled when tool_choice forces tool use."
		}
		c.Mode, c.Schema = llm.StructuredTools, r.Tools[0].InputSchema
	case len(r.Tools) > 0:
		return "one tool, which has to be called, is what this server takes"
	case r.OutputConfig.Format != nil && r.OutputConfig.Format.Type != "json_schema":
		return "output_config.format.type: Input should be 'json_schema'"
	case r.OutputConfig.Format != nil:
		c.Mode, c.Schema = llm.StructuredSchema, r.OutputConfig.Format.Schema
	}
	return ""
}
