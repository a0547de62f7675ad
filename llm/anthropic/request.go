package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// function is the name of the function that the model has to call with [llm.StructuredTools].
	function = "decide"
	// emptyText replaces a message without text, which the API refuses.
	emptyText = "(empty)"
	// maxTokens bounds an answer for which the request has no bound: the API wants one.
	maxTokens = 8192
)

// images are the types of images that Claude accepts.
var images = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// params converts r for the SDK. The prompt is cached up to two points: the end of the instructions, and that of the message before the last one, since
// only the last message has what changes between two calls of a conversation.
func (c *Client) params(r *llm.Request) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{Model: c.cfg.Model, MaxTokens: int64(r.MaxTokens)}
	p.MaxTokens = cmp.Or(max(p.MaxTokens, 0), maxTokens) + int64(c.budget)
	p.Thinking = c.thinking()
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	for i, m := range r.Messages {
		p.Messages = append(p.Messages, c.message(m, i == len(r.Messages)-2))
	}
	if r.Temperature != nil {
		p.Temperature = param.NewOpt(*r.Temperature)
	}
	p.OutputConfig.Effort = anthropic.OutputConfigEffort(c.cfg.Effort)
	if r.Schema == nil || c.cfg.Structured == llm.StructuredPrompt {
		return p, nil
	}
	if !json.Valid(r.Schema) {
		return p, &llm.Error{Kind: llm.ErrBadRequest, Provider: c.cfg.Name, Model: c.cfg.Model, Message: "the schema is not JSON"}
	}
	// The SDK's types are maps, which lose the order of the properties, in which the model writes. So the schema is sent as it is.
	if c.cfg.Structured == llm.StructuredSchema {
		format, err := json.Marshal(map[string]any{"type": "json_schema", "schema": r.Schema})
		if err != nil {
			return p, err
		}
		p.OutputConfig.Format = param.Override[anthropic.JSONOutputFormatParam](json.RawMessage(format))
		return p, nil
	}
	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
		Name: function, Description: param.NewOpt("Take the decision. Call this exactly once."), Strict: param.NewOpt(true),
		InputSchema: param.Override[anthropic.ToolInputSchemaParam](r.Schema),
	}}}
	p.ToolChoice = anthropic.ToolChoiceUnionParam{OfTool: &anthropic.ToolChoiceToolParam{Name: function, DisableParallelToolUse: param.NewOpt(true)}}
	return p, nil
}

// thinking returns the setting for the SDK. Thoughts are asked for as text: a model that thinks without a word would seem silent.
func (c *Client) thinking() (t anthropic.ThinkingConfigParamUnion) {
	switch {
	case c.budget > 0:
		t.OfEnabled = &anthropic.ThinkingConfigEnabledParam{BudgetTokens: int64(c.budget), Display: anthropic.ThinkingConfigEnabledDisplaySummarized}
	case c.cfg.Thinking == thinkingAdaptive:
		t.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized}
	case c.cfg.Thinking == thinkingOff:
		t.OfDisabled = &anthropic.ThinkingConfigDisabledParam{}
	}
	return t
}

// message converts m; cached says that the prompt is to be cached up to its end.
func (c *Client) message(m llm.Message, cached bool) anthropic.MessageParam {
	var types []string
	if c.cfg.Images {
		types = images
	}
	var blocks []anthropic.ContentBlockParamUnion
	for _, p := range m.Showing(types...).Parts {
		if p.Image != nil {
			blocks = append(blocks, anthropic.NewImageBlockBase64(p.Image.Type, base64.StdEncoding.EncodeToString(p.Image.Data)))
			continue
		}
		text := p.Text
		if strings.TrimSpace(text) == "" {
			text = emptyText
		}
		blocks = append(blocks, anthropic.NewTextBlock(text))
	}
	if at := blocks[len(blocks)-1].GetCacheControl(); cached && at != nil {
		*at = anthropic.NewCacheControlEphemeralParam()
	}
	role := anthropic.MessageParamRoleUser
	if m.Role == llm.RoleAssistant {
		role = anthropic.MessageParamRoleAssistant
	}
	return anthropic.MessageParam{Role: role, Content: blocks}
}
