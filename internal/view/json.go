package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NewJSON returns an encoder whose output is safe for terminals: it writes control and format characters as \uXXXX, which decodes to the same text.
func NewJSON(w io.Writer) *json.Encoder { return json.NewEncoder(plainWriter{w}) }

// maxIndented bounds the JSON that is indented for people, in bytes.
const maxIndented = 4 << 20

// Indented returns JSON as it is when it is indented from a level on, or as it is when that would be too large.
func Indented(text []byte, level int) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	if all, more := Indent(text, level, maxIndented); more == 0 {
		return all
	}
	return text
}

// WriteJSON writes a value as JSON for people and programs, as [NewJSON] encodes it.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := NewJSON(&b).Encode(v); err != nil {
		return err
	}
	_, err := w.Write(append(Indented(b.Bytes(), 0), '\n'))
	return err
}

// Indent returns the beginning of a valid JSON text, at most so many bytes, as it is when it is indented from a level on, and how many bytes the whole has
// more: indented, a text that is nested deeply may be larger than any memory.
func Indent(text []byte, level, most int) (begin []byte, more int) {
	put := func(s []byte) {
		n := min(len(s), most-len(begin))
		begin, more = append(begin, s[:n]...), more+len(s)-n
	}
	line := func() {
		put([]byte("\n"))
		n := min(2*level, most-len(begin))
		for range n {
			begin = append(begin, ' ')
		}
		more += 2*level - n
	}
	empty := false // what was begun last has nothing in it yet
	for i := 0; i < len(text); i++ {
		c, from := text[i], i
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '}', ']':
			if level--; !empty {
				line()
			}
			empty = false
		default:
			if empty {
				line()
			}
			empty = c == '{' || c == '['
		}
		if c == '"' {
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
		put(text[from:min(i+1, len(text))])
		switch c {
		case '{', '[':
			level++
		case ',':
			line()
		case ':':
			put([]byte(" "))
		}
	}
	return begin, more
}

// plainWriter escapes control and format characters. A character must not be split over two writes.
type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(b []byte) (int, error) {
	out, done := []byte(nil), 0
	for i := 0; i < len(b); {
		if b[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if unicode.In(r, unicode.Cc, unicode.Cf) {
			out = append(out, b[done:i]...)
			for _, u := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, u)
			}
			done = i + size
		}
		i += size
	}
	if _, err := p.w.Write(append(out, b[done:]...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
