package openai

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// frame is what the SDK is handed of one. Endpoints do not agree about the types of what nobody here reads, and the SDK
// minds each of them.
type frame struct {
	Model   string   `json:"model,omitempty"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason,omitempty"`
}

type delta struct {
	Content   json.RawMessage `json:"content,omitempty"`
	Refusal   json.RawMessage `json:"refusal,omitempty"`
	ToolCalls []toolCall      `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	} `json:"function"`
}

type usage struct {
	Prompt     count `json:"prompt_tokens,omitempty"`
	Completion count `json:"completion_tokens,omitempty"`
	Total      count `json:"total_tokens,omitempty"`
	Details    *struct {
		Cached count `json:"cached_tokens,omitempty"`
	} `json:"prompt_tokens_details,omitempty"`
}

// count is a number of tokens, however it is written. What is none counts as not said.
type count int

func (c *count) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64); err == nil && n > 0 {
		*c = count(min(n, math.MaxInt32))
	}
	return nil
}

// head is a frame with what the repair has to know of it beside.
type head struct {
	frame
	Object, Type string
	Error        json.RawMessage
	Choices      []struct { // in place of those of frame
		choice
		Error   json.RawMessage
		Message delta // of an answer that is not streamed
	} `json:"choices"`
}

// readHead returns false if data is no JSON. A field that has another type than usual counts as missing.
func readHead(data []byte) (*head, bool) {
	var h head
	var other *json.UnmarshalTypeError
	err := json.Unmarshal(data, &h)
	if data[0] == '[' && err != nil && errors.As(err, &other) {
		var list []head // Google's
		if json.Unmarshal(data, &list) == nil && len(list) > 0 {
			return &list[0], true
		}
	}
	return &h, err == nil || errors.As(err, &other)
}

// says reports whether the frame, of an event of this name, is an error.
func (h *head) says(event string) bool {
	if isSet(h.Error) {
		return true
	}
	for _, c := range h.Choices {
		if isSet(c.Error) {
			return true
		}
	}
	return len(h.Choices) == 0 && (h.Object == "error" || h.Type == "error" || event == eventError)
}

// hasAnswer reports whether the frame is a piece of an answer, and not some other kind of event.
func (h *head) hasAnswer() bool { return h.Choices != nil || h.Usage != nil }

// reduced returns the frame for the SDK.
func (h *head) reduced() *frame {
	f := &h.frame
	f.Choices = make([]choice, len(h.Choices))
	for i := range h.Choices {
		c := h.Choices[i].choice
		c.Delta.Content, c.Delta.Refusal = oneText(c.Delta.Content), oneText(c.Delta.Refusal)
		f.Choices[i] = c
	}
	return f
}

// isSet reports whether raw is a value that says something.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`:
		return false
	}
	return true
}

// oneText returns the string that raw is, or that the texts of its parts are together: what some models think comes as parts
// too, of another type. Anything else stays, for the SDK to refuse: words must not be lost without a word.
func oneText(raw json.RawMessage) json.RawMessage {
	if !isSet(raw) {
		return nil
	}
	if raw[0] != '[' {
		return raw
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return raw
	}
	var all strings.Builder
	for _, p := range parts {
		if p.Type == "text" || p.Type == "" {
			all.WriteString(p.Text)
		}
	}
	joined, err := json.Marshal(all.String())
	if err != nil { // a string can be written
		return raw
	}
	return joined
}
