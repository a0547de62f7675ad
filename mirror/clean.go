package mirror

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// maxText bounds a text column that is no body, in bytes; maxWords one with words of people or models.
const (
	maxText  = 1024
	maxWords = 4096
)

// clean returns a text that PostgreSQL can hold: without NUL, of valid UTF-8, and of a bounded length.
func clean(s string, most int) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return shorten.To(strings.ToValidUTF8(s, "\uFFFD"), most)
}

// cleanJSON returns JSON that jsonb can hold, and whether it differs from b: texts are of valid UTF-8, and neither a NUL nor half of a surrogate pair
// is escaped in them. Both become U+FFFD.
func cleanJSON(b []byte) (text []byte, mangled bool) {
	if !utf8.Valid(b) {
		b, mangled = bytes.ToValidUTF8(b, []byte("\uFFFD")), true
	}
	if bytes.IndexByte(b, 0) >= 0 { // no JSON, but not for PostgreSQL to say
		b, mangled = bytes.ReplaceAll(b, []byte{0}, []byte("\uFFFD")), true
	}
	if !bytes.Contains(b, []byte(`\u`)) {
		return b, mangled
	}
	var out []byte
	from := 0
	replace := func(at, n int) {
		out = append(append(out, b[from:at]...), `\ufffd`...)
		from, mangled = at+n, true
	}
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			i++
			continue
		}
		r, ok := escaped(b[i:])
		switch {
		case !ok:
			i += 2 // another escape
		case r == 0 || r >= 0xDC00 && r < 0xE000:
			replace(i, 6)
			i += 6
		case r >= 0xD800 && r < 0xDC00:
			if low, ok := escaped(b[i+6:]); ok && low >= 0xDC00 && low < 0xE000 {
				i += 12
				continue
			}
			replace(i, 6)
			i += 6
		default:
			i += 6
		}
	}
	if from == 0 {
		return b, mangled
	}
	return append(out, b[from:]...), mangled
}

// escaped returns the number in an escape \uXXXX that b begins with.
func escaped(b []byte) (n rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
