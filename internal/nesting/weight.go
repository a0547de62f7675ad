package nesting

import "bytes"

// Estimates, in bytes, of what a decoded value takes that has no type of its own.
const (
	emptyWeight  = 64  // an empty object or list
	objectWeight = 300 // an object, for its first names
	nameWeight   = 40  // a name in an object
	valueWeight  = 24  // a value in a list or an object
)

// Weight estimates how much memory a JSON text takes when it is decoded into values of any type, in bytes. A text of empty objects takes twenty times its
// length, and one of small objects more, so that a bound on texts is none on what they take. The text may be invalid.
func Weight(text []byte) int {
	var s Scale
	s.Write(text)
	return s.Weight
}

// Scale weighs a text that comes in pieces. The zero Scale is empty.
type Scale struct {
	Weight int // of what was written, see [Weight]

	quoted, escaped, opened bool
}

// Write adds a piece.
func (s *Scale) Write(piece []byte) {
	s.Weight += len(piece)
	for i := 0; i < len(piece); i++ {
		if s.quoted && !s.escaped {
			if n := plain(piece[i:]); n > 0 {
				i += n - 1
				continue
			}
		}
		s.add(piece[i])
	}
}

// window bounds what plain looks at, in bytes: it is called for each escape.
const window = 256

// plain returns the length of a beginning of text that is nothing but the inside of a string.
func plain(text []byte) int {
	text = text[:min(len(text), window)]
	for _, c := range []byte("\"\\\n\r") {
		if i := bytes.IndexByte(text, c); i >= 0 {
			text = text[:i]
		}
	}
	return len(text)
}

func (s *Scale) add(c byte) {
	switch {
	case c == '\n' || c == '\r': // no string has one, so what looks like a string that goes on is none
		s.escaped, s.quoted = false, false
		return
	case s.escaped:
		s.escaped = false
		return
	case s.quoted:
		s.escaped, s.quoted = c == '\\', c != '"'
		return
	case c == ' ', c == '\t':
		return
	case c == '"':
		s.quoted = true
	case c == '{' || c == '[':
		s.Weight += emptyWeight
	case c == ',':
		s.Weight += valueWeight
	case c == ':':
		s.Weight += nameWeight
	}
	if s.opened && c != '}' {
		s.Weight += objectWeight - emptyWeight
	}
	s.opened = c == '{'
}
