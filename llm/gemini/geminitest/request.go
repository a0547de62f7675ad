package geminitest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// request has the fields of a request that this server knows.
type request struct {
	Contents          []content `json:"contents"`
	SystemInstruction *content  `json:"systemInstruction"`
	GenerationConfig  struct {
		Temperature        *float64        `json:"temperature"`
		MaxOutputTokens    int             `json:"maxOutputTokens"`
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
	Tools []struct {
		FunctionDeclarations []struct {
			Name                 string          `json:"name"`
			Description          string          `json:"description"`
			ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		FunctionCallingConfig struct {
			Mode                 string   `json:"mode"`
			AllowedFunctionNames []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
}

type content struct {
	Role  string `json:"role"`
	Parts []struct {
		Text       *string `json:"text"`
		InlineData *struct {
			MIMEType string `json:"mimeType"`
			Data     []byte `json:"data"`
		} `json:"inlineData"`
	} `json:"parts"`
}

// decode decodes body into c. It returns Google's message for an invalid request, or "".
func decode(body []byte, c *llmtest.Call) (refusal string) {
	var r request
	if err := llmtest.Decode(body, &r); err != nil {
		return "Invalid JSON payload received. " + err.Error()
	}
	if len(r.Contents) == 0 {
		return "* GenerateContentRequest.contents: contents is not specified\n"
	}
	for i, m := range r.Contents {
		parts, refusal := m.parts()
		if refusal != "" {
			return fmt.Sprintf("* GenerateContentRequest.contents[%d]: %s", i, refusal)
		}
		role := llm.RoleUser
		switch m.Role {
		case "user":
		case "model":
			role = llm.RoleAssistant
		default:
			return "Please use a valid role: user, model."
		}
		c.Messages = append(c.Messages, llm.Message{Role: role, Parts: parts})
	}
	if r.SystemInstruction != nil {
		parts, refusal := r.SystemInstruction.parts()
		if refusal != "" {
			return "* GenerateContentRequest.system_instruction: " + refusal
		}
		c.System = llm.Message{Parts: parts}.Text()
	}
	c.MaxTokens, c.Temperature = r.GenerationConfig.MaxOutputTokens, r.GenerationConfig.Temperature
	return r.mode(c)
}

// imageTypes are the types that Gemini accepts.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

// parts returns the parts of m, or Google's error message.
func (m *content) parts() (parts []llm.Part, refusal string) {
	for _, p := range m.Parts {
		switch data := p.InlineData; {
		case (p.Text == nil) == (data == nil):
			return nil, "oneof field 'data' must have one initialized field"
		case data == nil:
			parts = append(parts, llm.Part{Text: *p.Text})
		case m.Role != "user" || !slices.Contains(imageTypes, data.MIMEType):
			return nil, "Unsupported MIME type: " + data.MIMEType
		case len(data.Data) == 0:
			return nil, "inline_data: data is empty"
		default:
			parts = append(parts, llm.Part{Image: &llm.Image{Type: data.MIMEType, Data: data.Data}})
		}
	}
	if len(parts) == 0 {
		return nil, "contents.parts must not be empty"
	}
	return parts, ""
}

// mode sets c's mode of structured output.
func (r *request) mode(c *llmtest.Call) (refusal string) {
	g, calling := r.GenerationConfig, r.ToolConfig.FunctionCallingConfig
	switch {
	case len(g.ResponseJSONSchema) > 0 && g.ResponseMIMEType != "application/json":
		return "Response schema is only supported with application/json mime type."
	case len(r.Tools) > 0 && g.ResponseMIMEType != "":
		return "Function calling with a response mime type: 'application/json' is unsupported"
	case len(r.Tools) > 0:
		f := r.Tools[0].FunctionDeclarations
		if len(r.Tools) != 1 || len(f) != 1 || calling.Mode != "ANY" || len(calling.AllowedFunctionNames) != 1 || calling.AllowedFunctionNames[0] != f[0].Name {
			return "one function, which has to be called, is what this server takes"
		}
		c.Mode, c.Schema = llm.StructuredTools, f[0].ParametersJSONSchema
	case calling.Mode != "":
		return "Function calling config is set without function_declarations."
	case len(g.ResponseJSONSchema) > 0:
		c.Mode, c.Schema = llm.StructuredSchema, g.ResponseJSONSchema
	case g.ResponseMIMEType == "application/json":
		c.Mode = llm.StructuredObject
	case g.ResponseMIMEType != "":
		return fmt.Sprintf("Unsupported response mime type %q", g.ResponseMIMEType)
	}
	return ""
}
