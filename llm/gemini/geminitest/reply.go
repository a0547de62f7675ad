package geminitest

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"

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
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{w: w, c: c, r: r}
	s.flush()
	if r.Endless {
		c.Endless(w, `data: {"candidates": [{"content": {"parts": [{"text": "`)
		return
	}
	s.unknown(0)
	if r.Thoughts != "" {
		s.parts(object{"text": r.Thoughts, "thought": true})
	}
	if !s.content() {
		return
	}
	switch {
	case r.Error != nil:
		s.fault(r.Error)
		return
	case r.CutFrame:
		_, _ = io.WriteString(w, `data: {"candidates": [{"content": {"parts": [{"text": "a half`)
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
	w     http.ResponseWriter
	c     *llmtest.Call
	r     *llmtest.Reply
	ended bool // the usage was sent
}

func (s *stream) flush() { _ = http.NewResponseController(s.w).Flush() }

// event sends an event, with Google's line ends.
func (s *stream) event(data object) {
	line, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(s.w, "data: "+string(line)+"\r\n\r\n")
	s.flush()
}

// response returns the fields of a response that each event has.
func (s *stream) response() object {
	r := object{"modelVersion": cmp.Or(s.r.Model, s.c.Model), "responseId": "geminitest-1"}
	switch {
	case s.ended:
	case s.r.Early:
		r["usageMetadata"] = s.usage()
	default: // what is known so far; the last one counts
		r["usageMetadata"] = object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2, "trafficType": "ON_DEMAND"}
	}
	return r
}

func (s *stream) usage() object {
	u := s.r.Usage
	thoughts := 0
	if s.r.Thoughts != "" {
		thoughts = u.Reasoning
	}
	usage := object{"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - thoughts, "totalTokenCount": u.Input + u.Output}
	if thoughts > 0 {
		usage["thoughtsTokenCount"] = thoughts
	}
	if u.Cached > 0 {
		usage["cachedContentTokenCount"] = u.Cached
	}
	return usage
}

func (s *stream) parts(parts ...object) {
	e := s.response()
	e["candidates"] = []object{{"index": 0, "content": object{"role": "model", "parts": parts}}}
	s.event(e)
}

// content sends the answer, and reports whether the client is still there.
func (s *stream) content() bool {
	if s.c.Mode == llm.StructuredTools {
		return s.calls()
	}
	for i, piece := range s.r.Pieces {
		s.parts(object{"text": piece})
		if i == 0 && !s.c.Wait(s.r) {
			return false
		}
		s.unknown(i + 1)
	}
	return true
}

// calls sends function calls, each of which is sent as a whole.
func (s *stream) calls() bool {
	if s.r.Before != "" {
		s.parts(object{"text": s.r.Before})
	}
	var calls []object
	for _, args := range []string{strings.Join(s.r.Pieces, ""), s.r.Second} {
		if args == "" {
			continue
		}
		// The protocol cannot send an incomplete call.
		if json.Valid([]byte(args)) {
			calls = append(calls, object{"functionCall": object{"name": "decide", "args": json.RawMessage(args)}, "thoughtSignature": "c2lnbmF0dXJl"})
		}
	}
	if len(calls) > 0 {
		s.parts(calls...)
	}
	return len(s.r.Pieces) == 0 || s.c.Wait(s.r)
}

func (s *stream) finish() {
	e := s.response()
	e["usageMetadata"], s.ended = s.usage(), true
	last := object{"index": 0}
	switch s.r.Finish {
	case llmtest.Blocked:
		e["promptFeedback"] = object{"blockReason": "PROHIBITED_CONTENT"}
		s.event(e)
		return
	case llmtest.Nothing:
		s.event(e)
		return
	case llmtest.BadCall:
		last["finishReason"] = "MALFORMED_FUNCTION_CALL"
		last["finishMessage"] = "Malformed function call: print(default_api.decide(kind="
	case llmtest.Length:
		last["finishReason"] = "MAX_TOKENS"
	case llmtest.Filtered:
		last["finishReason"] = "SAFETY"
		last["safetyRatings"] = []object{{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": true}}
	case llmtest.NeverSeen:
		last["finishReason"] = "GREW_TIRED"
		last["content"] = object{"role": "model", "parts": []object{{"text": ""}}}
	default:
		last["finishReason"] = "STOP"
		last["content"] = object{"role": "model", "parts": []object{{"text": "", "thoughtSignature": "c2lnbmF0dXJl"}}}
	}
	e["candidates"] = []object{last}
	s.event(e)
}

// unknown sends something that clients do not know, if the reply asks for it; n selects what.
func (s *stream) unknown(n int) {
	if !s.r.Unknown {
		return
	}
	_, _ = io.WriteString(s.w, ": keep-alive\r\n\r\nevent: ping\r\nid: 7\r\nretry: 1000\r\ndata: {}\r\n\r\nhologram: on\r\n\r\n")
	switch n % 4 {
	case 0:
		s.parts(
			object{"executableCode": object{"language": "PYTHON", "code": "print(6*7)"}},
			object{"codeExecutionResult": object{"outcome": "OUTCOME_OK", "output": "42\n"}},
			object{"executableCode": object{"language": "KLINGON", "code": "Qapla'", "id": 7}},
		)
	case 1:
		s.parts(object{"thoughtSignature": "c2lnbmF0dXJl"}, object{}, object{"inlineData": object{"mimeType": "image/png", "data": "iVBORw0KGgo="}})
	case 2:
		s.parts(object{"hologram": object{"text": "not a part of the answer", "frames": []int{1, 2, 3}}}, object{"thought": true, "text": "hm"})
	case 3:
		e := s.response()
		e["modelStatus"] = object{"modelStage": "RETIRED_LAST_SUMMER", "message": "soon"}
		e["weather"] = object{"candidates": []string{"sun"}}
		e["candidates"] = []object{
			{"index": 0, "mood": "curious", "groundingMetadata": object{"webSearchQueries": []string{"q"}, "unheardOf": 1}},
			{"index": 1, "content": object{"role": "model", "parts": []object{{"text": "another candidate"}}}},
		}
		s.event(e)
	}
	s.flush()
}
