package openaitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// stream sends the answer in frames.
func (x *exchange) stream() {
	r := x.reply
	x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	x.w.Header().Set("Cache-Control", "no-cache")
	x.w.WriteHeader(http.StatusOK)
	if r.Endless {
		x.call.Endless(x.w, `data: {"id":"`+id+`","choices":[{"index":0,"delta":{"content":"`)
		return
	}
	if r.Finish == llmtest.Nothing {
		x.send(x.chunk(nil, nil, []object{}))
		x.close()
		return
	}
	x.delta(object{"role": "assistant", "content": "", "refusal": nil})
	x.thoughts()
	x.unknown()
	text := x.texts()
	for i, piece := range r.Pieces {
		if i > 0 {
			x.unknown()
		}
		x.delta(text(piece))
		if i == 0 && !x.call.Wait(r) {
			return
		}
	}
	if x.isTools() && r.Second != "" {
		x.delta(callPiece(1, true, ""))
		x.delta(callPiece(1, false, r.Second))
	}
	x.unknown()
	switch {
	case r.Cut && r.Orderly:
		return
	case r.Cut:
		panic(http.ErrAbortHandler) // closes the connection
	case r.CutFrame:
		frame := x.frame(object{"content": "never to be read"}, nil)
		x.write(frame[:len(frame)/2])
		panic(http.ErrAbortHandler)
	case r.Error != nil:
		x.faultFrame(r.Error)
		return
	}
	x.write(x.frame(object{}, x.finish()))
	x.close()
}

// texts sends Before, and returns a function that makes a delta of a piece of the answer.
func (x *exchange) texts() func(piece string) object {
	if x.reply.Before != "" {
		x.delta(object{"content": x.reply.Before})
	}
	switch {
	case x.isTools():
		x.delta(callPiece(0, true, ""))
		return func(piece string) object { return callPiece(0, false, piece) }
	case x.reply.Finish == llmtest.Refused:
		return func(piece string) object { return object{"refusal": piece} }
	}
	return func(piece string) object { return object{"content": piece} }
}

// callPiece returns a delta of a function call. The first one has the name.
func callPiece(i int, first bool, arguments string) object {
	call := object{"index": i, "function": object{"arguments": arguments}}
	if first {
		call = toolCall(i, arguments)
		call["index"] = i
	}
	return object{"tool_calls": []object{call}}
}

// thoughts sends the thoughts, under both field names that endpoints use.
func (x *exchange) thoughts() {
	for i, half := range []string{"reasoning_content", "reasoning"} {
		if t := x.reply.Thoughts; t != "" {
			x.delta(object{half: []string{t[:len(t)/2], t[len(t)/2:]}[i]})
		}
	}
}

// unknown sends what clients do not know and should ignore.
func (x *exchange) unknown() {
	if !x.reply.Unknown {
		return
	}
	var b bytes.Buffer
	b.WriteString(strings.Repeat(": OPENROUTER PROCESSING\n\n", 400)) // more than the SDK accepts
	b.WriteString("event: ping\nid: 7\nretry: 3000\ndata: {\"type\": \"ping\"}\n\n")
	b.WriteString("event: heartbeat\ndata: still here\n\n")
	b.WriteString("data:\n\n\n\nsurprise: yes\n\r\n")
	b.WriteString("data: {\"object\": \"metrics\",\ndata:  \"usage\": null,\ndata:  \"created\": \"now\"}\n\n")
	x.write(b.Bytes())
	chunk := x.chunk(object{"annotations": []any{object{"type": "mood"}}, "audio": nil, "images": []any{}}, nil, nil)
	chunk["obfuscation"], chunk["service_tier"], chunk["x_mood"] = "aQ9x", "default", object{"colour": 7}
	x.send(chunk)
}

// close sends the end of a stream.
func (x *exchange) close() {
	if x.usage {
		chunk := x.chunk(nil, nil, []object{})
		chunk["usage"] = x.tokens()
		x.send(chunk)
	}
	x.write([]byte("data: [DONE]\n\n"))
}

func (x *exchange) delta(d object) { x.write(x.frame(d, nil)) }

func (x *exchange) send(v any) { x.write(frameOf(v)) }

// frame returns a frame with a delta.
func (x *exchange) frame(delta object, finish any) []byte {
	return frameOf(x.chunk(delta, finish, nil))
}

// chunk returns the content of a frame; choices, unless nil, replaces the one with the delta.
func (x *exchange) chunk(delta object, finish any, choices []object) object {
	if choices == nil {
		choices = []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
	}
	chunk := object{
		"id": id, "object": "chat.completion.chunk", "created": created, "model": x.reply.Model, "choices": choices,
		"service_tier": "default", "system_fingerprint": "fp_0123456789",
	}
	if x.usage {
		chunk["usage"] = nil
		if x.reply.Early {
			chunk["usage"] = x.tokens()
		}
	}
	return chunk
}

// frameOf returns v as an event.
func frameOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("openaitest: %v", err)) // cannot happen: it consists of texts and numbers
	}
	return slices.Concat([]byte("data: "), b, []byte("\n\n"))
}

// write sends b at once.
func (x *exchange) write(b []byte) {
	_, _ = x.w.Write(b) // when the client is gone, Gone is closed
	_ = http.NewResponseController(x.w).Flush()
}
