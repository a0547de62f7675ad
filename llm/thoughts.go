package llm

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// thoughtMarks enclose the thoughts that a model writes before its reply, when the server does not remove them. A brace within thoughts does not
// begin a decision.
var thoughtMarks = []struct{ start, end string }{
	{"<think>", "</think>"}, // DeepSeek, Qwen
	{"<thinking>", "</thinking>"},
	{"<thought>", "</thought>"},
	{"[THINK]", "[/THINK]"}, // Mistral
	{"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"}, // gpt-oss
}

const (
	thoughtFirst = "<[" // the first characters of marks
	thoughtMost  = 32   // the maximum length of a mark, in bytes
)

// withoutThoughts returns text without the thoughts at its beginning; "" when the last ones have no end. If the start mark was part of the prompt, as
// in some templates, only the end mark is seen: text before it is not part of the reply, unless the text begins as a decision does.
func withoutThoughts(text string) string {
	for {
		lead := strings.TrimLeft(text, " \t\r\n")
		if beginsDecision(lead) {
			return text
		}
		if end, thought, ok := cutThoughtStart(lead); ok {
			_, text, _ = strings.Cut(thought, end)
		} else if text, ok = behindThoughts(text); !ok {
			return text
		}
	}
}

// beginsDecision reports whether text begins with an object, or with a code fence around one, so that it can be shown without reading the rest.
func beginsDecision(text string) bool {
	if fenced, ok := strings.CutPrefix(text, codeFence); ok {
		info, code, _ := strings.Cut(fenced, "\n")
		if strings.ContainsFunc(info, func(r rune) bool { return !inFence(r) }) {
			return false
		}
		text = strings.TrimLeft(code, " \t\r\n")
	}
	return strings.HasPrefix(text, "{")
}

const codeFence = "```"

// inFence reports whether r can follow the mark of a code fence in its line.
func inFence(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == ' ' || r == '\t' || r == '\r'
}

// cutThoughtStart returns the text after the mark that text begins with, and the corresponding end mark.
func cutThoughtStart(text string) (end, thought string, ok bool) {
	for _, m := range thoughtMarks {
		if thought, ok = strings.CutPrefix(text, m.start); ok {
			return m.end, thought, true
		}
	}
	return "", "", false
}

// behindThoughts returns the text after the first end mark that is not within a JSON object, or text when there is none. In text that only begins
// like an object, the last end mark counts, so that no byte is examined repeatedly.
func behindThoughts(text string) (rest string, ok bool) {
	end, behind := nextThoughtEnd(text, 0)
	for at := 0; end >= 0; {
		brace := strings.IndexByte(text[at:end], '{')
		if brace < 0 {
			return text[behind:], true
		}
		at += brace
		size, object := objectAt(text[at:])
		if at += size; end >= at {
			continue
		}
		for more, after := end, behind; more >= 0 && more < at; more, after = nextThoughtEnd(text, after) {
			behind = after
		}
		if !object {
			return text[behind:], true
		}
		end, behind = nextThoughtEnd(text, at)
	}
	return text, false
}

// nextThoughtEnd returns the positions of the next end mark from at on, and of the text after it; -1 when there is none.
func nextThoughtEnd(text string, at int) (begin, behind int) {
	for {
		i := strings.IndexAny(text[at:], thoughtFirst)
		if i < 0 {
			return -1, -1
		}
		at += i
		for _, m := range thoughtMarks {
			if strings.HasPrefix(text[at:], m.end) {
				return at, at + len(m.end)
			}
		}
		at++
	}
}

// objectAt reports whether text, which begins with a brace, begins with a JSON object, and returns the object's length, or how much could have been
// part of one.
func objectAt(text string) (size int, ok bool) {
	var raw json.RawMessage
	d := json.NewDecoder(strings.NewReader(text))
	err := d.Decode(&raw)
	if err == nil {
		return int(d.InputOffset()), true
	}
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return max(1, int(bad.Offset)-1), false // what is invalid may be the beginning of another one
	}
	return len(text), false
}

// The states of a sayReader before the reply follow withoutThoughts, byte by byte. They cannot know whether an end mark after a brace is in a JSON
// string. If it is, so is the following text up to the next quote, which no key follows: so they continue only if the first key follows at once.

// lead determines what begins: a decision, thoughts, or other text.
func (r *sayReader) lead(c byte) {
	if len(r.tail) == 0 && isSpace(c) {
		return
	}
	if len(r.tail) == 0 && c == '{' {
		r.state = (*sayReader).beforeKey
		return
	}
	r.tail = append(r.tail, c)
	seen := string(r.tail)
	switch end, _, ok := cutThoughtStart(seen); {
	case ok && r.braces: // it may be in a string
		r.state = nil
	case ok:
		r.begin((*sayReader).thought)
		r.end = end
	case seen == codeFence:
		r.begin((*sayReader).fence)
	case strings.HasPrefix(codeFence, seen) || slices.ContainsFunc(thoughtMarks, func(m struct{ start, end string }) bool {
		return strings.HasPrefix(m.start, seen)
	}):
	default:
		r.prose(c)
	}
}

// begin sets the next state and forgets the tail.
func (r *sayReader) begin(next func(*sayReader, byte)) { r.tail, r.state = r.tail[:0], next }

// fence reads the rest of the first line of a code fence.
func (r *sayReader) fence(c byte) {
	switch {
	case c == '\n':
		r.begin((*sayReader).fenced)
	case !inFence(rune(c)):
		r.remember(c)
		r.prose(c)
	}
}

func (r *sayReader) fenced(c byte) {
	switch {
	case c == '{':
		r.state = (*sayReader).beforeKey
	case !isSpace(c):
		r.remember(c)
		r.prose(c)
	}
}

// prose waits for an end mark. Without one, this text is the reply, which is known only when it is complete.
func (r *sayReader) prose(c byte) {
	r.braces = r.braces || c == '{'
	r.state = func(r *sayReader, c byte) {
		r.braces = r.braces || c == '{'
		r.remember(c)
		for _, m := range thoughtMarks {
			if r.at(m.end) {
				r.begin((*sayReader).lead)
				return
			}
		}
	}
}

func (r *sayReader) thought(c byte) {
	if r.remember(c); r.at(r.end) {
		r.begin((*sayReader).lead)
	}
}

// at reports whether mark was just read.
func (r *sayReader) at(mark string) bool {
	n := len(r.tail) - len(mark)
	return n >= 0 && string(r.tail[n:]) == mark
}

// remember keeps the latest bytes, at least as many as a mark has.
func (r *sayReader) remember(c byte) {
	if len(r.tail) >= 4*thoughtMost {
		r.tail = append(r.tail[:0], r.tail[len(r.tail)-thoughtMost:]...)
	}
	r.tail = append(r.tail, c)
}
