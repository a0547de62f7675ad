package prompt

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Clean returns an external text as one line that is safe to show. It removes terminal escape sequences and control, bidirectional and invisible
// characters, collapses white space to single spaces, and replaces invalid UTF-8. The result has at most limit characters, the last one "…" if
// something was cut.
func Clean(s string, limit int) string {
	// Do not clean what will be cut off; 64 bytes for each character leave room for what is removed.
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

// CleanText is Clean for texts of several lines: it keeps newlines, tabs and repeated spaces, and the limit is in bytes. A note at the end says how
// much was cut.
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

// Shown is Clean for a person who has to judge the text, such as before consenting to it: it removes nothing. Invisible characters are written as
// escapes such as \u200b, which do not count towards the limit.
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

// visible removes the invisible characters of s. It keeps newlines and tabs; all kinds of line ends become newlines.
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
			b.WriteRune(r) // also replaces an invalid byte by U+FFFD
		}
		i += size
	}
	return b.String()
}

// isPlain reports whether s is ASCII without control characters other than newline and tab, the usual case, which needs no cleaning.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || (c < ' ' && c != '\n' && c != '\t') {
			return false
		}
	}
	return true
}

// invisible reports whether r is invisible: control and format characters (bidirectional overrides, zero widths, tags), variation selectors, fillers,
// and noncharacters. They can hide words from people that a model reads.
func invisible(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == '\u2800' || r&0xfffe == 0xfffe
}

// maxEscape bounds the length of an escape sequence, so that cleaning takes linear time.
const maxEscape = 1024

// escapeLen returns the length of the terminal escape sequence at the start of s, or that of its introducer when it has no end.
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
