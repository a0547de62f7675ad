package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
)

// response is the part of a response that the SDK gets. The SDK decodes all fields, and would fail on an unexpected type in an unused one.
type response struct {
	Candidates []*struct {
		Index   json.RawMessage `json:"index,omitempty"`
		Content *struct {
			Parts []*struct {
				Text         json.RawMessage `json:"text,omitempty"`
				Thought      json.RawMessage `json:"thought,omitempty"`
				FunctionCall *struct {
					Args json.RawMessage `json:"args,omitempty"`
				} `json:"functionCall,omitempty"`
			} `json:"parts,omitempty"`
		} `json:"content,omitempty"`
		FinishReason  json.RawMessage `json:"finishReason,omitempty"`
		FinishMessage json.RawMessage `json:"finishMessage,omitempty"`
	} `json:"candidates,omitempty"`
	PromptFeedback *struct {
		BlockReason        json.RawMessage `json:"blockReason,omitempty"`
		BlockReasonMessage json.RawMessage `json:"blockReasonMessage,omitempty"`
	} `json:"promptFeedback,omitempty"`
	UsageMetadata *struct {
		Prompt     json.RawMessage `json:"promptTokenCount,omitempty"`
		ToolPrompt json.RawMessage `json:"toolUsePromptTokenCount,omitempty"`
		Cached     json.RawMessage `json:"cachedContentTokenCount,omitempty"`
		Candidates json.RawMessage `json:"candidatesTokenCount,omitempty"`
		Thoughts   json.RawMessage `json:"thoughtsTokenCount,omitempty"`
	} `json:"usageMetadata,omitempty"`
	ModelVersion json.RawMessage `json:"modelVersion,omitempty"`
	ResponseID   json.RawMessage `json:"responseId,omitempty"`
}

// reduce returns data for the SDK, on one line. It stores in x what the SDK would lose: the order of the arguments of the first function call, which
// the SDK decodes into a map, and the message with the Gemini API's finish reason.
func (x *exchange) reduce(data []byte) ([]byte, error) {
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	for _, c := range r.Candidates {
		if c == nil {
			continue
		}
		if len(c.FinishMessage) > 0 {
			x.finishMessage = "" // not a text
			_ = json.Unmarshal(c.FinishMessage, &x.finishMessage)
			c.FinishMessage = nil
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			if p == nil || p.FunctionCall == nil {
				continue
			}
			x.arguments = cmp.Or(x.arguments, compact(p.FunctionCall.Args))
			p.FunctionCall.Args = nil
		}
	}
	return json.Marshal(&r)
}

// compact returns the arguments of a call on one line; "{}" if there are none.
func compact(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, args) != nil || b.Len() == 0 || b.String() == "null" {
		return "{}"
	}
	return b.String()
}
