package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/llm"
)

// chatFormat is that of chat completions, of one answer.
type chatFormat struct{ earlier alike }

func (*chatFormat) alive() part { return &frame{Choices: []choice{}} }

func (c *chatFormat) frame(event string, data []byte) (reading, bool) {
	if r, ok := c.earlier.read(data); ok {
		return r, true
	}
	h, ok := readHead(data)
	switch {
	case !ok:
		return reading{}, false
	case h.says(event):
		return reading{failed: data}, true
	case data[0] != '{', h.Choices == nil && h.Usage == nil:
		return reading{}, true
	}
	r := h.reading()
	if len(h.Choices) == 1 {
		c.earlier.note(data, h.Choices[0].Delta.Content, r)
	}
	return r, true
}

func (*chatFormat) object(data []byte) reading {
	h, _ := readHead(data)
	if h.Choices == nil || h.says("") {
		return reading{failed: data}
	}
	if len(h.Choices) > 0 {
		h.Choices = h.Choices[:1]
		h.Choices[0].Delta = h.Choices[0].Message
	}
	return h.reading()
}

// frame is the used part of a frame. Endpoints disagree about the types of others.
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
	Written *struct {
		Reasoning count `json:"reasoning_tokens,omitempty"`
	} `json:"completion_tokens_details,omitempty"`
}

// addTo implements [part].
func (f *frame) addTo(a *answer) (string, error) {
	a.model = cmp.Or(f.Model, a.model)
	if f.Usage != nil {
		a.count(f.Usage.plain())
	}
	var text string
	for i := range f.Choices {
		c := &f.Choices[i]
		if c.Index != 0 {
			continue
		}
		p := piece{finish: c.FinishReason}
		var err error
		if p.text, err = textOf(c.Delta.Content); err != nil {
			return "", err
		}
		if p.refusal, err = textOf(c.Delta.Refusal); err != nil {
			return "", err
		}
		for _, t := range c.Delta.ToolCalls {
			arguments, err := textOf(t.Function.Arguments)
			if err != nil {
				return "", err
			}
			p.calls = append(p.calls, call{t.Index, t.ID, t.Function.Name, arguments})
		}
		more, err := a.add(&p)
		if err != nil {
			return "", err
		}
		text += more
	}
	return text, nil
}

// textOf returns the text of a JSON string, or "" for nothing.
func textOf(raw json.RawMessage) (text string, err error) {
	if n := len(raw); n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1]), nil
	}
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &text)
	}
	return text, err
}

// plain returns what was counted.
func (u *usage) plain() counted {
	n := counted{input: int(u.Prompt), output: int(u.Completion), total: int(u.Total)}
	if u.Details != nil {
		n.cached = int(u.Details.Cached)
	}
	if u.Written != nil {
		n.reasoning = int(u.Written.Reasoning)
	}
	return n
}

// count is a number of tokens in any JSON type. An invalid one counts as missing.
type count int

func (c *count) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64); err == nil && n > 0 {
		*c = count(min(n, math.MaxInt32))
	}
	return nil
}

// head is a frame with what the repair needs besides.
type head struct {
	frame
	Object, Type string
	Error        json.RawMessage
	Choices      []struct { // replaces that of frame
		choice
		Error   json.RawMessage
		Message delta // of an answer that is not streamed
	} `json:"choices"`
}

// readHead decodes data; it returns false if data is not JSON. A field with an unexpected type counts as missing.
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

// says reports whether the frame, of an event with this name, is an error.
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

// reading returns what a part of an answer means.
func (h *head) reading() reading {
	ends := false
	for _, c := range h.Choices {
		if c.FinishReason == "error" {
			return reading{err: &llm.Error{Kind: llm.ErrUnavailable, Message: "it ended the answer with an error, and does not say which"}}
		}
		ends = ends || c.FinishReason != ""
	}
	return reading{frames: []part{h.reduced()}, ends: ends}
}

// reduced returns the used part of the frame.
func (h *head) reduced() *frame {
	f := h.frame // a copy, which does not keep the rest
	f.Choices = make([]choice, len(h.Choices))
	for i := range h.Choices {
		c := h.Choices[i].choice
		c.Delta.Content, c.Delta.Refusal = oneText(c.Delta.Content), oneText(c.Delta.Refusal)
		f.Choices[i] = c
	}
	return &f
}

// isSet reports whether raw is a significant value.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`:
		return false
	}
	return true
}

// oneText returns raw if it is a string, or the joined texts of its parts: some models send thoughts as parts of another type, too. It returns
// anything else unchanged, so that reading it fails rather than lose text silently.
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
	if err != nil { // a string can always be encoded
		return raw
	}
	return joined
}
