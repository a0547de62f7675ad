package anthropictest

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// object is JSON.
type object = map[string]any

// say sends the reply to c.
func say(w http.ResponseWriter, c *llmtest.Call, r *llmtest.Reply) {
	if len(r.Pieces) == 0 && !c.Wait(r) {
		return
	}
	switch {
	case r.Garbage != "":
		_, _ = io.WriteString(w, r.Garbage)
		return
	case r.Error != nil && len(r.Pieces) == 0:
		fail(w, r.Error, c)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s := &stream{w: w, c: c, r: r}
	s.flush()
	if r.Endless {
		c.Endless(w, `event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`)
		return
	}
	s.start()
	s.unknown(0)
	if r.Thoughts != "" {
		s.block(object{"type": "thinking", "thinking": "", "signature": ""},
			object{"type": "thinking_delta", "thinking": r.Thoughts}, object{"type": "signature_delta", "signature": "c2lnbmF0dXJl"})
	}
	if !s.content() {
		return
	}
	switch {
	case r.Error != nil:
		s.fault(r.Error)
		return
	case r.CutFrame:
		_, _ = io.WriteString(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a half")
		s.flush()
		panic(http.ErrAbortHandler)
	case r.Cut && r.Orderly:
		return
	case r.Cut:
		panic(http.ErrAbortHandler)
	}
	s.unknown(3)
	s.finish()
	s.unknown(1)
	c.Stay(r)
}

// stream is a reply being sent.
type stream struct {
	w    http.ResponseWriter
	c    *llmtest.Call
	r    *llmtest.Reply
	next int // the index of the next block
}

func (s *stream) flush() { _ = http.NewResponseController(s.w).Flush() }

// event sends an event.
func (s *stream) event(kind string, data object) {
	line, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(s.w, "event: "+kind+"\ndata: "+string(line)+"\n\n")
	s.flush()
}

// start sends what is known before the answer.
func (s *stream) start() {
	u := s.r.Usage
	s.event("message_start", object{"type": "message_start", "message": object{
		"id": "msg_anthropictest1", "type": "message", "role": "assistant", "model": cmp.Or(s.r.Model, s.c.Model), "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": u.Input - u.Cached - u.CacheWrite, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWrite,
			"output_tokens": min(u.Output, 1), "service_tier": "standard",
		},
	}})
	s.event("ping", object{"type": "ping"})
}

// usage returns the usage so far, whose counts are sums.
func (s *stream) usage() object {
	u := s.r.Usage
	usage := object{
		"input_tokens": u.Input - u.Cached - u.CacheWrite, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWrite,
		"output_tokens": u.Output,
	}
	if s.r.Thoughts != "" {
		usage["output_tokens_details"] = object{"thinking_tokens": u.Reasoning}
	}
	return usage
}

func (s *stream) open(block object) {
	s.event("content_block_start", object{"type": "content_block_start", "index": s.next, "content_block": block})
}

func (s *stream) delta(d object) {
	s.event("content_block_delta", object{"type": "content_block_delta", "index": s.next, "delta": d})
}

func (s *stream) close() {
	s.event("content_block_stop", object{"type": "content_block_stop", "index": s.next})
	s.next++
}

// block sends a whole block.
func (s *stream) block(start object, deltas ...object) {
	s.open(start)
	for _, d := range deltas {
		s.delta(d)
	}
	s.close()
}

var (
	text = object{"type": "text", "text": ""}
	tool = object{"type": "tool_use", "id": "toolu_1", "name": "decide", "input": object{}}
)

// content sends the answer, and reports whether the client is still there.
func (s *stream) content() bool {
	start, piece := text, func(p string) object { return object{"type": "text_delta", "text": p} }
	if s.c.Mode == llm.StructuredTools {
		if s.r.Before != "" {
			s.block(text, object{"type": "text_delta", "text": s.r.Before})
		}
		start, piece = tool, func(p string) object { return object{"type": "input_json_delta", "partial_json": p} }
	}
	if len(s.r.Pieces) == 0 {
		return true
	}
	s.open(start)
	for i, p := range s.r.Pieces {
		s.delta(piece(p))
		if s.r.Early {
			s.event("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": nil, "stop_sequence": nil}, "usage": s.usage()})
		}
		if i == 0 && !s.c.Wait(s.r) {
			return false
		}
		s.unknown(i + 1)
	}
	if s.r.Error != nil || s.r.Cut || s.r.CutFrame {
		return true
	}
	s.close()
	if s.r.Second != "" {
		s.block(tool, object{"type": "input_json_delta", "partial_json": s.r.Second})
	}
	return true
}

func (s *stream) finish() {
	delta := object{"stop_reason": "end_turn", "stop_sequence": nil}
	switch s.r.Finish {
	case llmtest.Nothing:
		s.event("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": nil}, "usage": s.usage()})
		s.event("message_stop", object{"type": "message_stop"})
		return
	case llmtest.Blocked, llmtest.Filtered:
		delta["stop_reason"] = "refusal"
		delta["stop_details"] = object{"type": "refusal", "category": "general_harms", "explanation": "This request may go against the usage policy."}
	case llmtest.Length:
		delta["stop_reason"] = "max_tokens"
	case llmtest.NeverSeen:
		delta["stop_reason"] = "grew_tired"
	default:
		if s.c.Mode == llm.StructuredTools && len(s.r.Pieces) > 0 {
			delta["stop_reason"] = "tool_use"
		}
	}
	s.event("message_delta", object{"type": "message_delta", "delta": delta, "usage": s.usage()})
	s.event("message_stop", object{"type": "message_stop"})
}

// unknown sends something that clients do not know, if the reply asks for it; n selects what.
func (s *stream) unknown(n int) {
	if !s.r.Unknown {
		return
	}
	_, _ = io.WriteString(s.w, ": keep-alive\r\n\r\nid: 7\r\nretry: 1000\r\n\r\nhologram: on\r\n\r\n")
	switch n % 4 {
	case 0:
		s.event("hologram", object{"type": "hologram", "frames": []int{1, 2, 3}, "delta": object{"type": "text_delta", "text": "not a part of the answer"}})
	case 1:
		s.event("content_block_delta", object{"type": "content_block_delta", "index": 7, "delta": object{"type": "hologram_delta", "text": "none", "partial_json": 1}})
	case 2:
		s.event("ping", object{"type": "ping", "mood": "curious"})
		s.event("content_block_start", object{"type": "content_block_start", "index": 8, "content_block": object{"type": "redacted_thinking", "data": "c2VjcmV0"}})
		s.event("content_block_stop", object{"type": "content_block_stop", "index": 8})
	case 3:
		s.event("content_block_start", object{"type": "content_block_start", "index": 9, "content_block": object{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": object{}}})
		s.event("content_block_delta", object{"type": "content_block_delta", "index": 9, "delta": object{"type": "input_json_delta", "partial_json": "{\"query\":\"q\"}"}})
		s.event("content_block_stop", object{"type": "content_block_stop", "index": 9, "weather": "sun"})
	}
	s.flush()
}
