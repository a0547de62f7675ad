package llm

import "strings"

// What a model that thinks aloud writes before its reply, where the server does not take it out: DeepSeek's and Qwen's
// mark. A brace in a thought is not the beginning of a decision.
const (
	thoughtStart = "<think>"
	thoughtEnd   = "</think>"
)

// withoutThoughts returns text behind the blocks of thoughts that it begins with; nothing when the last one has no end.
func withoutThoughts(text string) string {
	for {
		lead := strings.TrimLeft(text, " \t\r\n")
		thought, ok := strings.CutPrefix(lead, thoughtStart)
		if !ok {
			return text
		}
		_, text, _ = strings.Cut(thought, thoughtEnd)
	}
}

// lead is the state of a sayReader before the reply: it skips thoughts.
func (r *sayReader) lead(c byte) {
	switch {
	case r.matched == 0 && isSpace(c):
	case c == thoughtStart[r.matched]:
		if r.matched++; r.matched == len(thoughtStart) {
			r.matched, r.state = 0, (*sayReader).thought
		}
	default: // what looked like the mark is prose, and has no brace
		r.state = (*sayReader).start
		r.start(c)
	}
}

func (r *sayReader) thought(c byte) {
	switch {
	case c == thoughtEnd[r.matched]:
		if r.matched++; r.matched == len(thoughtEnd) {
			r.matched, r.state = 0, (*sayReader).lead
		}
	case c == thoughtEnd[0]:
		r.matched = 1
	default:
		r.matched = 0
	}
}
