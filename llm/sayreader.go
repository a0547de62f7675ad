package llm

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// sayReader extracts the text for the user from a decision while it is being written. It gets the reply in pieces of any size, and emits the value of
// "say" as it arrives, if "kind" came before and is an answer. It reads the first JSON object after the thoughts, as [ParseDecision] does, if no
// other text precedes the object, since that may turn out to be thoughts. It emits nothing more after any irregularity, which is for ParseDecision to
// judge.
type sayReader struct {
	emit func(string)

	state  func(*sayReader, byte) // nil: finished
	key    string                 // of the value being read
	kind   string
	str    stringReader
	depth  int  // of a skipped value
	saying bool // in the text for the user

	tail   []byte // the latest bytes before the reply
	end    string // the mark that ends the thoughts
	braces bool   // there was a brace in what may be thoughts
}

func newSayReader(emit func(string)) *sayReader {
	return &sayReader{emit: emit, state: (*sayReader).lead}
}

// write processes the next piece of the reply.
func (r *sayReader) write(piece string) {
	for i := 0; i < len(piece) && r.state != nil; i++ {
		r.state(r, piece[i])
	}
	if r.saying {
		r.show(r.str.take())
	}
}

func (r *sayReader) beforeKey(c byte) {
	switch {
	case isSpace(c):
	case c == '"':
		r.key = ""
		r.readString(func(key string) {
			r.key = key
			if r.state = (*sayReader).colon; r.braces && r.key != "kind" {
				r.state = nil
			}
			r.braces = false
		})
	default:
		r.state = nil
	}
}

func (r *sayReader) colon(c byte) {
	switch {
	case isSpace(c):
	case c == ':':
		r.state = (*sayReader).beforeValue
	default:
		r.state = nil
	}
}

func (r *sayReader) beforeValue(c byte) {
	switch {
	case isSpace(c):
	case c == '"' && r.key == "kind":
		r.readString(func(kind string) { r.kind, r.state = kind, (*sayReader).afterValue })
	case r.key == "say":
		r.state = nil
		if r.saying = c == '"' && Kind(r.kind).Answers(); r.saying {
			r.readString(func(rest string) {
				r.show(rest)
				r.saying, r.state = false, nil
			})
		}
	case c == '"':
		r.readString(func(string) { r.state = (*sayReader).afterValue })
	case c == '{' || c == '[':
		r.depth = 1
		r.state = (*sayReader).skip
	case c == ',' || c == '}' || c == ']' || c == ':':
		r.state = nil
	default:
		r.state = (*sayReader).afterValue // in a number or a word, which ends at the comma
	}
}

func (r *sayReader) afterValue(c byte) {
	switch c {
	case ',':
		r.state = (*sayReader).beforeKey
	case '}':
		r.state = nil
	}
}

func (r *sayReader) skip(c byte) {
	switch c {
	case '"':
		r.readString(func(string) { r.state = (*sayReader).skip })
	case '{', '[':
		r.depth++
	case '}', ']':
		if r.depth--; r.depth == 0 {
			r.state = (*sayReader).afterValue
		}
	}
}

// readString reads a string whose opening quote was read, and calls done with the part of it that was not emitted.
func (r *sayReader) readString(done func(text string)) {
	r.str = stringReader{}
	r.state = func(r *sayReader, c byte) {
		switch more, ok := r.str.add(c); {
		case !ok:
			r.state = nil
		case !more:
			done(r.str.take())
		}
	}
}

func (r *sayReader) show(text string) {
	if text != "" {
		r.emit(text)
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// stringReader reads a JSON string byte by byte, and decodes what is complete with encoding/json. It holds back an incomplete character or escape, or
// the first half of a surrogate pair.
type stringReader struct {
	raw  []byte // not yet taken
	safe int    // length of the part of raw that does not depend on what follows, except for an incomplete character
	esc  []byte // the end of raw, from the backslash of an incomplete escape; nil: none
	end  bool
}

// take returns the text that was added since the last call.
func (s *stringReader) take() string {
	n := s.safe
	if !s.end {
		n = shorten.Whole(s.raw[:n])
	}
	var text string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, s.raw[:n], []byte{'"'}), &text) // add has validated it
	s.raw, s.safe = s.raw[n:], s.safe-n
	return text
}

// add adds a byte. more is false after the closing quote, ok is false when the byte is invalid.
func (s *stringReader) add(c byte) (more, ok bool) {
	escaped := s.esc != nil
	if !escaped && c == '"' {
		s.safe, s.end = len(s.raw), true
		return false, true
	}
	if c < ' ' {
		return false, false
	}
	s.raw = append(s.raw, c)
	at := len(s.raw) - 1 - len(s.esc) // where the character begins
	switch char := s.raw[at:]; {
	case !escaped && c != '\\':
	case len(char) == 1, len(char) == 2 && c == 'u', len(char) > 2 && len(char) < 6 && isHex(c):
		s.esc = char
		return true, true
	case len(char) == 2 && strings.IndexByte(`"\/bfnrt`, c) < 0, len(char) > 2 && !isHex(c):
		return true, false
	case len(char) == 6 && char[2]|0x20 == 'd' && strings.IndexByte("89abAB", char[3]) >= 0: // the first half of a surrogate pair
		s.safe, s.esc = at, nil
		return true, true
	}
	s.safe, s.esc = len(s.raw), nil
	return true, true
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }
