package view

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NewJSON returns an encoder whose output is safe for terminals: it writes control and format characters as \uXXXX, which decodes to the same text.
func NewJSON(w io.Writer) *json.Encoder { return json.NewEncoder(plainWriter{w}) }

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
