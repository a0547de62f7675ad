package openaitest

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// eventStream is the answer of the Responses API, in events or whole.
type eventStream struct {
	*exchange
	number int      // of the next event
	output []object // the complete items
}

// streamResponse sends the answer in events.
func (x *exchange) streamResponse() {
	s := &eventStream{exchange: x}
	r := x.reply
	x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	x.w.WriteHeader(http.StatusOK)
	if r.Endless {
		x.call.Endless(x.w, `event: response.output_text.delta`+"\n"+`data: {"type":"response.output_text.delta","output_index":0,"delta":"`)
		return
	}
	s.event("response.created", object{"response": s.response("in_progress")})
	s.event("response.in_progress", object{"response": s.response("in_progress")})
	if r.Thoughts != "" {
		s.thoughts()
	}
	s.unknown()
	if r.Before != "" {
		s.item(s.message(plainText, []string{r.Before}, false))
	}
	if len(r.Pieces) > 0 || r.CutFrame {
		if !s.item(s.answer()) {
			return
		}
	} else if s.breaksOff() {
		return
	}
	if x.isTools() && r.Second != "" {
		s.item(s.call(1, []string{r.Second}, false))
	}
	s.unknown()
	if r.Error != nil {
		s.fault(r.Error)
		return
	}
	s.end()
}

// step is a part of an item: an event, or nil for the place where the answer breaks off, if it does.
type step struct {
	kind string
	data object
	hold bool // wait after it
}

// item sends an item in its events, and returns false when there is nothing more to send.
func (s *eventStream) item(done object, steps []step) bool {
	i, r := len(s.output), s.reply
	begun := object{"id": done["id"], "type": done["type"], "status": "in_progress"}
	for key, empty := range map[string]any{"content": []any{}, "arguments": ""} {
		if _, has := done[key]; has {
			begun[key] = empty
		}
	}
	for _, key := range []string{"name", "call_id", "role"} {
		if v, has := done[key]; has {
			begun[key] = v
		}
	}
	s.event("response.output_item.added", object{"output_index": i, "item": begun})
	for _, st := range steps {
		if s.gone.Err() != nil {
			return false
		}
		if st.kind == "" {
			switch {
			case s.breaksOff():
				return false
			case r.Error != nil:
				return true // without the item's end
			}
			continue
		}
		st.data["output_index"], st.data["item_id"] = i, done["id"]
		s.event(st.kind, st.data)
		if r.Early {
			s.event("response.in_progress", object{"response": s.response("in_progress")})
		}
		if st.hold {
			if !s.exchange.call.Wait(r) {
				return false
			}
			s.unknown()
		}
	}
	s.event("response.output_item.done", object{"output_index": i, "item": done})
	s.output = append(s.output, done)
	return true
}

// breaksOff ends the answer if it is to be cut here, in good order or by a panic that closes the connection.
func (s *eventStream) breaksOff() bool {
	switch r := s.reply; {
	case r.Cut && r.Orderly:
		return true
	case r.Cut:
		panic(http.ErrAbortHandler)
	case r.CutFrame:
		frame := eventOf("response.output_text.delta", object{"output_index": len(s.output), "delta": "never to be read"})
		s.write(frame[:len(frame)*3/4])
		panic(http.ErrAbortHandler)
	}
	return false
}

// answer returns the item of the answer, and its steps.
func (s *eventStream) answer() (object, []step) {
	switch {
	case s.isTools():
		return s.call(0, s.reply.Pieces, true)
	case s.reply.Finish == llmtest.Refused:
		return s.message("refusal", s.reply.Pieces, true)
	}
	return s.message(plainText, s.reply.Pieces, true)
}

// message returns an item with text, or with a refusal.
func (s *eventStream) message(kind string, pieces []string, main bool) (object, []step) {
	text := strings.Join(pieces, "")
	part := object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
	name, key := "response.output_text", "text"
	if kind == "refusal" {
		part, name, key = object{"type": "refusal", "refusal": text}, "response.refusal", "refusal"
	}
	steps := []step{{kind: "response.content_part.added", data: object{"content_index": 0, "part": object{"type": part["type"], key: ""}}}}
	for i, p := range pieces {
		steps = append(steps, step{kind: name + ".delta", data: object{"content_index": 0, "delta": p, "logprobs": []any{}}, hold: main && i == 0})
	}
	if main {
		steps = append(steps, step{})
	}
	steps = append(steps, step{kind: name + ".done", data: object{"content_index": 0, key: text}},
		step{kind: "response.content_part.done", data: object{"content_index": 0, "part": part}})
	return object{"id": "msg_0123456789", "type": "message", "role": "assistant", "status": "completed", "content": []any{part}}, steps
}

// call returns an item that is a function call.
func (s *eventStream) call(i int, pieces []string, main bool) (object, []step) {
	var steps []step
	for n, p := range pieces {
		steps = append(steps, step{kind: "response.function_call_arguments.delta", data: object{"delta": p}, hold: main && n == 0})
	}
	if main {
		steps = append(steps, step{})
	}
	arguments := strings.Join(pieces, "")
	steps = append(steps, step{kind: "response.function_call_arguments.done", data: object{"arguments": arguments}})
	return object{
		"id": fmt.Sprintf("fc_012345678%d", i), "type": "function_call", "status": "completed", "name": functionNames[i], "call_id": callID(i), "arguments": arguments,
	}, steps
}

// thoughts sends the thoughts.
func (s *eventStream) thoughts() {
	half := len(s.reply.Thoughts) / 2
	var steps []step
	for _, piece := range []string{s.reply.Thoughts[:half], s.reply.Thoughts[half:]} {
		steps = append(steps, step{kind: "response.reasoning_summary_text.delta", data: object{"summary_index": 0, "delta": piece}})
	}
	s.item(object{"id": "rs_0123456789", "type": "reasoning", "summary": []any{object{"type": "summary_text", "text": s.reply.Thoughts}}}, steps)
}

// unknown sends what clients do not know and should ignore.
func (s *eventStream) unknown() {
	if !s.reply.Unknown {
		return
	}
	var b bytes.Buffer
	b.WriteString(strings.Repeat(": keep-alive\n\n", 400)) // more than the SDK accepts
	b.WriteString("event: ping\nid: 7\nretry: 3000\ndata: {\"type\": \"ping\"}\n\n")
	b.WriteString("event: heartbeat\ndata: still here\n\n")
	b.WriteString("data:\n\n\n\nsurprise: yes\n\r\n")
	b.WriteString("data: {\"object\": \"metrics\",\ndata:  \"usage\": null,\ndata:  \"created\": \"now\"}\n\n")
	s.write(b.Bytes())
	s.event("response.mood.delta", object{"delta": object{"colour": 7}, "output_index": "none"})
	s.event("response.output_item.added", object{"output_index": 99, "item": object{"type": "mood", "name": 7}})
	s.event("response.output_item.done", object{"output_index": 99, "item": []any{}})
}

// fault ends the stream with an error.
func (s *eventStream) fault(f *llmtest.Fault) {
	said := say(f, s.exchange.call.Model, s.exchange.call.Key)
	switch shape(f) {
	case OpenAI:
		s.event("error", object{"code": said.code, "message": said.message, "param": nil})
	case VLLM:
		r := s.response("failed")
		r["error"] = object{"code": said.code, "message": said.message}
		s.event("response.failed", object{"response": r})
	case HTML:
		s.write([]byte(said.page()))
	case Google:
		s.write([]byte("event: error\n"))
		s.send(said.body(f))
	default:
		s.send(said.body(f))
	}
}

// end sends the last event.
func (s *eventStream) end() {
	if s.reply.Finish == llmtest.Nothing {
		s.output = nil
	}
	status := s.status()
	kind := "response." + status
	if s.reply.Finish == llmtest.NeverSeen {
		status = "out_of_moonlight"
	}
	s.event(kind, object{"response": s.response(status)})
}

// status returns the status of the complete response.
func (s *eventStream) status() string {
	switch s.reply.Finish {
	case llmtest.Length, llmtest.Filtered:
		return "incomplete"
	}
	return "completed"
}

// response returns the response in this status.
func (s *eventStream) response(status string) object {
	r := object{
		"id": "resp_0123456789", "object": "response", "created_at": created, "status": status, "model": s.reply.Model, "output": slices.Clone(s.output),
		"error": nil, "incomplete_details": nil, "usage": nil, "instructions": nil, "metadata": object{}, "store": false,
	}
	if status != "in_progress" || s.reply.Early {
		u := s.reply.Usage
		thoughts := 0
		if s.reply.Thoughts != "" {
			thoughts = u.Reasoning
		}
		r["usage"] = object{
			"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"input_tokens_details": object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite}, "output_tokens_details": object{"reasoning_tokens": thoughts},
		}
	}
	switch {
	case status != "incomplete":
	case s.reply.Finish == llmtest.Filtered:
		r["incomplete_details"] = object{"reason": "content_filter"}
	default:
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	return r
}

// wholeResponse returns an answer that is not streamed.
func (x *exchange) wholeResponse() object {
	s := &eventStream{exchange: x}
	if len(x.reply.Pieces) > 0 {
		item, _ := s.answer()
		s.output = append(s.output, item)
	}
	return s.response(s.status())
}

// event sends an event.
func (s *eventStream) event(kind string, data object) {
	data["sequence_number"] = s.number
	s.number++
	s.write(eventOf(kind, data))
}

// eventOf returns data as an event of a kind.
func eventOf(kind string, data object) []byte {
	data["type"] = kind
	return slices.Concat([]byte("event: "+kind+"\n"), frameOf(data))
}
