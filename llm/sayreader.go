package llm

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// sayReader finds the words for the user in a decision while it is still being written. It is fed the reply in pieces
// of any size and hands on the value of "say" as it comes, provided that "kind" came before and answers: only
// then is it known to be the answer. It reads the first JSON object behind the thoughts, as [ParseDecision] does, provided that
// nothing else stands before it, for that may turn out to be thoughts. It hands on nothing more once something is not as it
// should be; the judgement on that is ParseDecision's.
type sayReader struct {
	emit func(string)

	state func(*sayReader, byte) // nil: finished
	key   string                 // of the value being read
	kind  string
	str   stringReader
	out   func(*sayReader, string) // where the string being read goes
	text  strings.Builder          // a key or the kind
	depth int                      // of a value that is skipped

	tail   []byte // what was read last, before the reply
	end    string // the mark that ends the thoughts
	braces bool   // were among what may be thoughts
}

func newSayReader(emit func(string)) *sayReader {
	return &sayReader{emit: emit, state: (*sayReader).lead}
}

// write takes the next piece of the reply.
func (r *sayReader) write(piece string) {
	for i := 0; i < len(piece) && r.state != nil; i++ {
		r.state(r, piece[i])
	}
	if r.key == "say" && r.out != nil {
		r.out(r, r.str.take())
	}
}

func (r *sayReader) beforeKey(c byte) {
	switch {
	case isSpace(c):
	case c == '"':
		r.key = ""
		r.readString(func(r *sayReader, s string) { r.text.WriteString(s) }, func(r *sayReader) {
			r.key = r.text.String()
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
		r.readString(func(r *sayReader, s string) { r.text.WriteString(s) }, func(r *sayReader) {
			r.kind = r.text.String()
			r.state = (*sayReader).afterValue
		})
	case r.key == "say":
		r.state = nil
		if c == '"' && Kind(r.kind).Answers() {
			r.readString(func(r *sayReader, s string) {
				if s != "" {
					r.emit(s)
				}
			}, func(r *sayReader) { r.state = nil })
		}
	case c == '"':
		r.readString(func(*sayReader, string) {}, func(r *sayReader) { r.state = (*sayReader).afterValue })
	case c == '{' || c == '[':
		r.depth = 1
		r.state = (*sayReader).skip
	case c == ',' || c == '}' || c == ']' || c == ':':
		r.state = nil
	default:
		r.state = (*sayReader).afterValue // in a number or a word: it ends at the comma
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
		r.readString(func(*sayReader, string) {}, func(r *sayReader) { r.state = (*sayReader).skip })
	case '{', '[':
		r.depth++
	case '}', ']':
		if r.depth--; r.depth == 0 {
			r.state = (*sayReader).afterValue
		}
	}
}

// readString reads a string whose opening quote was seen. out gets its text, for "say" after every piece of the reply,
// otherwise at the end, when done is called.
func (r *sayReader) readString(out func(*sayReader, string), done func(*sayReader)) {
	r.str = stringReader{}
	r.text.Reset()
	r.out = out
	r.state = func(r *sayReader, c byte) {
		switch more, ok := r.str.add(c); {
		case !ok:
			r.out(r, r.str.take())
			r.out, r.state = nil, nil
		case !more:
			r.out(r, r.str.take())
			r.out = nil
			done(r)
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// stringReader decodes a JSON string byte by byte, exactly as encoding/json does: what is not UTF-8 and half a surrogate
// pair become U+FFFD. Where it has to see what follows, in the middle of a character or after the first half of a pair,
// it holds back.
type stringReader struct {
	ready []byte // decoded
	raw   []byte // bytes of a character that is not complete
	esc   []byte // of an escape: what follows the backslash; nil: none
	high  rune   // first half of a pair, or 0
}

// take returns what was decoded since the last call.
func (s *stringReader) take() string {
	out := string(s.ready)
	s.ready = s.ready[:0]
	return out
}

// add takes the next byte. more is false after the closing quote, ok when the byte cannot be there.
func (s *stringReader) add(c byte) (more, ok bool) {
	switch {
	case s.esc != nil:
		return true, s.escape(c)
	case c >= utf8.RuneSelf:
		s.half()
		s.raw = append(s.raw, c)
		s.flush(false)
		return true, true
	}
	s.flush(true)
	switch {
	case c == '\\':
		s.esc = make([]byte, 0, 5)
		return true, true
	case c < ' ':
		return false, false
	}
	s.half()
	if c == '"' {
		return false, true
	}
	s.ready = append(s.ready, c)
	return true, true
}

// flush decodes the characters that are complete, and at the end of a run of bytes also what will never be.
func (s *stringReader) flush(end bool) {
	for len(s.raw) > 0 && (end || utf8.FullRune(s.raw)) {
		r, n := utf8.DecodeRune(s.raw)
		s.ready = utf8.AppendRune(s.ready, r)
		s.raw = append(s.raw[:0], s.raw[n:]...)
	}
}

// half gives up a first half of a pair that no second half follows.
func (s *stringReader) half() {
	if s.high != 0 {
		s.ready = utf8.AppendRune(s.ready, utf8.RuneError)
		s.high = 0
	}
}

func (s *stringReader) escape(c byte) bool {
	if len(s.esc) == 0 && c != 'u' {
		i := strings.IndexByte(`"\/bfnrt`, c)
		if i < 0 {
			return false
		}
		s.half()
		s.ready = append(s.ready, "\"\\/\b\f\n\r\t"[i])
		s.esc = nil
		return true
	}
	if s.esc = append(s.esc, c); len(s.esc) < 5 {
		return len(s.esc) == 1 || hex(c) >= 0
	}
	var r rune
	for _, h := range s.esc[1:] {
		if hex(h) < 0 {
			return false
		}
		r = r<<4 | hex(h)
	}
	s.esc = nil
	if s.high != 0 {
		if pair := utf16.DecodeRune(s.high, r); pair != utf8.RuneError {
			s.ready = utf8.AppendRune(s.ready, pair)
			s.high = 0
			return true
		}
		s.half()
	}
	switch {
	case r >= 0xd800 && r < 0xdc00:
		s.high = r
	default:
		s.ready = utf8.AppendRune(s.ready, r) // a second half alone becomes U+FFFD
	}
	return true
}

func hex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
