package prompt

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Clean returns a stranger's s as one line that is safe to show: terminal escape sequences, control, bidirectional and
// invisible characters are gone, every run of white space is one space, invalid UTF-8 is replaced. It has at most limit
// characters, the last one "…" when something was cut.
func Clean(s string, limit int) string {
	// What will be cut off need not be cleaned; 64 bytes for each character leave room for what is dropped.
	rest := false
	if most := max(limit, 1) * 64; len(s) > most {
		s, rest = shorten.To(s, most), true
	}
	s = strings.Join(strings.Fields(visible(s)), " ")
	if rest = rest || utf8.RuneCountInString(s) > limit; !rest {
		return s
	}
	n := 0
	for i := range s {
		if n++; n >= limit {
			s = s[:i]
			break
		}
	}
	return strings.TrimRight(s, " ") + "…"
}

// CleanText is Clean for texts of several lines: newlines and tabs stay, spaces are not collapsed, and the limit is in
// bytes, a note at the end telling how much was cut.
func CleanText(s string, limit int) string {
	cut := 0
	if len(s) > limit {
		whole := len(s)
		s = shorten.To(s, limit)
		cut = whole - len(s)
	}
	s = visible(s)
	if cut > 0 {
		s += fmt.Sprintf("\n[… %d more bytes are cut off]", cut)
	}
	return s
}

// Shown is Clean for whoever has to judge what s does to somebody else, a person who is to agree to it: it leaves out nothing. What
// cannot be seen stands there as an escape such as \u200b, which does not count for the limit.
func Shown(s string, limit int) string {
	rest := false
	if most := max(limit, 1) * 64; len(s) > most {
		s, rest = shorten.To(s, most), true
	}
	s = strings.Join(strings.Fields(s), " ")
	if n := utf8.RuneCountInString(s); n > limit || rest {
		s = string([]rune(s)[:min(n, max(limit, 1)-1)]) + "…"
	}
	return escaped(s)
}

// visible drops from s what cannot be seen. Of the control characters newline and tab stay; every kind of line end
// becomes a newline.
func visible(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\x1b' || r == '\u009b' || r == '\u009d' || r == '\u0090':
			i += escapeLen(s[i:])
			continue
		case r == '\r':
			if i+1 == len(s) || s[i+1] != '\n' {
				b.WriteByte('\n')
			}
		case r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case r == '\n' || r == '\t' || !invisible(r):
			b.WriteRune(r) // also turns an invalid byte into U+FFFD
		}
		i += size
	}
	return b.String()
}

// isPlain reports whether s is ASCII without control characters other than newline and tab: nothing to do, as mostly.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || (c < ' ' && c != '\n' && c != '\t') {
			return false
		}
	}
	return true
}

// invisible reports whether r shows nothing: control and format characters (bidirectional overrides, zero widths, tags),
// variation selectors, fillers, and what is not a character at all. They hide words from people that a model reads.
func invisible(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == '\u2800' || r&0xfffe == 0xfffe
}

// maxEscape bounds the search for the end of an escape sequence, so that cleaning stays linear.
const maxEscape = 1024

// escapeLen returns the length of the terminal escape sequence at the start of s, of its introducer when it has no end.
func escapeLen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == '\x1b' {
		if n == len(s) {
			return n
		}
		switch c := s[n]; {
		case c == '[':
			r, n = '\u009b', n+1
		case strings.IndexByte("]P_^X", c) >= 0:
			r, n = '\u009d', n+1
		case c >= 0x20 && c < 0x30: // intermediate bytes, then one final byte: ESC ( B
			for n < len(s) && s[n] >= 0x20 && s[n] < 0x30 {
				n++
			}
			if n < len(s) && s[n] >= 0x30 && s[n] < 0x7f {
				n++
			}
			return n
		case c >= 0x30 && c < 0x7f:
			return n + 1
		default:
			return n
		}
	}
	end := min(len(s), n+maxEscape)
	if r == '\u009b' { // parameters, then a final byte
		for i := n; i < end && s[i] >= 0x20 && s[i] < 0x7f; i++ {
			if s[i] >= 0x40 {
				return i + 1
			}
		}
		return n
	}
	for i := n; i < end; i++ { // a string, until BEL or ST
		switch {
		case s[i] == '\a':
			return i + 1
		case s[i] == '\x1b' && i+1 < len(s) && s[i+1] == '\\', strings.HasPrefix(s[i:], "\u009c"):
			return i + 2
		}
	}
	return n
}
