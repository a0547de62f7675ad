package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm"
)

// responseFormat is that of the Responses API. Its frames are events, which repeat what came in pieces when a part, an item and the response are
// complete. The pieces count; only of an answer that did not come in pieces those of the complete response do.
type responseFormat struct {
	pieces bool // some came
}

// event is the used part of an event.
type event struct {
	Type     openai.ResponseStreamEventType `json:"type"`
	Index    int                            `json:"output_index"`
	Delta    string                         `json:"delta,omitempty"`
	Response *response                      `json:"response,omitempty"`
}

type response struct {
	Model      string         `json:"model,omitempty"`
	Incomplete *incomplete    `json:"incomplete_details,omitempty"`
	Usage      *responseUsage `json:"usage,omitempty"`
}

type incomplete struct {
	Reason string `json:"reason,omitempty"`
}

type responseUsage struct {
	Input   count `json:"input_tokens,omitempty"`
	Output  count `json:"output_tokens,omitempty"`
	Total   count `json:"total_tokens,omitempty"`
	Details *struct {
		Cached  count `json:"cached_tokens,omitempty"`
		Written count `json:"cache_write_tokens,omitempty"`
	} `json:"input_tokens_details,omitempty"`
	Thoughts *struct {
		Reasoning count `json:"reasoning_tokens,omitempty"`
	} `json:"output_tokens_details,omitempty"`
}

// addTo implements [part].
func (e *event) addTo(a *answer) (string, error) {
	if r := e.Response; r != nil {
		a.model = cmp.Or(r.Model, a.model)
		if u := r.Usage; u != nil {
			a.count(u.plain())
		}
	}
	var p piece
	switch e.Type {
	case openai.ResponseStreamEventOutputTextDelta:
		p.text = e.Delta
	case openai.ResponseStreamEventRefusalDelta:
		p.refusal = e.Delta
	case openai.ResponseStreamEventOutputItemAdded: // of a function call: see responseFormat
		p.calls = []call{{index: &e.Index, name: functionName}}
	case openai.ResponseStreamEventFunctionArgumentsDelta:
		p.calls = []call{{index: &e.Index, arguments: e.Delta}}
	case openai.ResponseStreamEventCompleted:
		p.finish = "completed"
	case openai.ResponseStreamEventIncomplete:
		p.finish = "incomplete"
		if r := e.Response; r != nil && r.Incomplete != nil && r.Incomplete.Reason != "" {
			p.finish = r.Incomplete.Reason
		}
		a.partial = true
	}
	return a.add(&p)
}

// plain returns what was counted.
func (u *responseUsage) plain() counted {
	n := counted{input: int(u.Input), output: int(u.Output), total: int(u.Total)}
	if u.Details != nil {
		n.cached, n.written = int(u.Details.Cached), int(u.Details.Written)
	}
	if u.Thoughts != nil {
		n.reasoning = int(u.Thoughts.Reasoning)
	}
	return n
}

// item is a part of a response: a message, a function call, or something else, such as thoughts.
type item struct {
	Type      string
	Arguments string
	Content   []struct{ Type, Text, Refusal string }
}

// body is a response.
type body struct {
	response
	Object, Status string
	Error          json.RawMessage
	Output         []item
}

// received is an event with what the format needs besides.
type received struct {
	event
	Delta    json.RawMessage `json:"delta"` // replaces that of event, as Response does
	Item     item
	Response *body `json:"response"`
}

func (*responseFormat) alive() part { return &event{Type: openai.ResponseStreamEventInProgress} }

func (f *responseFormat) frame(name string, data []byte) (reading, bool) {
	var e received
	var other *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &e); err != nil && !errors.As(err, &other) {
		return reading{}, false
	}
	if !strings.HasPrefix(string(e.Type), "response.") {
		if h, ok := readHead(data); ok && h.says(name) { // an error has the shapes that it has among chat completions
			return reading{failed: data}, true
		}
		return reading{}, true
	}
	out := &event{Type: e.Type, Index: e.Index}
	if e.Response != nil {
		out.Response = &e.Response.response
	}
	switch e.Type {
	case openai.ResponseStreamEventOutputTextDelta, openai.ResponseStreamEventRefusalDelta, openai.ResponseStreamEventFunctionArgumentsDelta:
		if err := json.Unmarshal(e.Delta, &out.Delta); err != nil && len(e.Delta) > 0 {
			return reading{err: &llm.Error{Kind: llm.ErrUnavailable, Message: "a piece of the answer is no text"}}, true
		}
		f.pieces = true
		return reading{frames: []part{out}}, true
	case openai.ResponseStreamEventOutputItemAdded:
		if e.Item.Type == itemCall {
			return reading{frames: []part{out}}, true
		}
	case openai.ResponseStreamEventCompleted, openai.ResponseStreamEventIncomplete, openai.ResponseStreamEventFailed:
		if e.Response != nil {
			return f.end(e.Type, e.Response), true
		}
		return reading{err: &llm.Error{Kind: llm.ErrUnavailable, Message: "the end of the answer has no response"}}, true
	}
	out.Type = openai.ResponseStreamEventInProgress // all others mean no more than that
	return reading{frames: []part{out}}, true
}

// itemCall is the type of an item that is a function call.
const itemCall = "function_call"

// end returns the meaning of an event of this type with a complete response.
func (f *responseFormat) end(kind openai.ResponseStreamEventType, b *body) reading {
	last := &event{Type: kind, Response: &b.response}
	if kind == openai.ResponseStreamEventFailed || isSet(b.Error) {
		last.Type = openai.ResponseStreamEventInProgress // with the usage
		said, err := json.Marshal(map[string]json.RawMessage{"error": b.Error})
		if err != nil || !isSet(b.Error) {
			return reading{frames: []part{last}, err: &llm.Error{Kind: llm.ErrUnavailable, Message: "it ended the answer with an error, and does not say which"}}
		}
		return reading{frames: []part{last}, failed: said}
	}
	if f.pieces {
		return reading{frames: []part{last}, ends: true, last: true}
	}
	return reading{frames: append(piecesOf(b.Output), last), ends: true, last: true}
}

// piecesOf returns the events in which the output would have come.
func piecesOf(output []item) []part {
	var all []part
	add := func(kind openai.ResponseStreamEventType, i int, text string) {
		if text != "" {
			all = append(all, &event{Type: kind, Index: i, Delta: text})
		}
	}
	for i, it := range output {
		if it.Type == itemCall {
			add(openai.ResponseStreamEventFunctionArgumentsDelta, i, it.Arguments)
		}
		for _, c := range it.Content {
			switch c.Type {
			case "output_text":
				add(openai.ResponseStreamEventOutputTextDelta, i, c.Text)
			case "refusal":
				add(openai.ResponseStreamEventRefusalDelta, i, c.Refusal)
			}
		}
	}
	return all
}

func (f *responseFormat) object(data []byte) reading {
	var b body
	_ = json.Unmarshal(data, &b) // fields with another type are missing
	kinds := map[string]openai.ResponseStreamEventType{
		"completed": openai.ResponseStreamEventCompleted, "incomplete": openai.ResponseStreamEventIncomplete, "failed": openai.ResponseStreamEventFailed,
	}
	kind, ok := kinds[b.Status]
	if !ok || (b.Object != "response" && b.Output == nil) {
		return reading{failed: data}
	}
	return f.end(kind, &b)
}
