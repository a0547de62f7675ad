package repl

import (
	"strings"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Sanitize returns s without anything that can control a terminal or deceive its reader: escape and control sequences with their parameters, control
// characters other than newline and tab, and invisible characters that reorder text. Invalid UTF-8 becomes U+FFFD.
func Sanitize(s string) string {
	var z Sanitizer
	return z.Clean(s) + z.Flush()
}

// Sanitizer is [Sanitize] for text that arrives in pieces: it also removes sequences that are split between pieces. The zero value is ready to use.
// It is not safe for concurrent use.
type Sanitizer struct {
	state sequence
	n     int    // length of the sequence so far, in runes
	tail  string // an incomplete UTF-8 sequence
}

// sequence is the state within an escape sequence of ECMA-48.
type sequence int

const (
	plain         sequence = iota
	escape                 // after ESC
	escapeMiddle           // after ESC and an intermediate byte
	control                // within CSI
	controlString          // within OSC, DCS, SOS, PM or APC
	stringEscape           // after ESC within a string
)

// Longer sequences, in runes, are not sequences: what follows is text. So a stray ESC ] does not hide the rest.
const (
	maxControl       = 64
	maxControlString = 4096
)

// Clean returns what may be shown of the next piece.
func (z *Sanitizer) Clean(piece string) string {
	s := z.tail + piece
	z.tail = ""
	var b strings.Builder
	for i := 0; i < len(s); {
		if !utf8.FullRuneInString(s[i:]) {
			z.tail = s[i:]
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if z.keep(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Flush ends the text, and returns U+FFFD for bytes of an incomplete rune. The Sanitizer may be used again.
func (z *Sanitizer) Flush() string {
	tail := z.tail
	*z = Sanitizer{state: z.state, n: z.n}
	var b strings.Builder
	for range len(tail) {
		if z.keep(utf8.RuneError) {
			b.WriteRune(utf8.RuneError)
		}
	}
	*z = Sanitizer{}
	return b.String()
}

// keep advances the state by one rune and reports whether it is shown.
func (z *Sanitizer) keep(r rune) bool {
	z.n++
	switch z.state {
	case escape, escapeMiddle:
		switch {
		case r == 0x1b:
			z.enter(escape)
			return false
		case z.state == escape && r == '[':
			z.enter(control)
			return false
		case z.state == escape && strings.ContainsRune("]PX^_", r):
			z.enter(controlString)
			return false
		case r >= 0x20 && r <= 0x2f && z.n < maxControl:
			z.state = escapeMiddle
			return false
		case r >= 0x30 && r <= 0x7e:
			z.enter(plain)
			return false
		}
	case control:
		switch {
		case r >= 0x20 && r <= 0x3f && z.n < maxControl:
			return false
		case r >= 0x40 && r <= 0x7e:
			z.enter(plain)
			return false
		}
	case controlString:
		switch {
		case r == 0x1b:
			z.state = stringEscape
			return false
		case r == 0x07 || r == 0x9c || r == 0x18 || r == 0x1a: // BEL, ST, CAN, SUB
			z.enter(plain)
			return false
		case r != '\n' && z.n < maxControlString:
			return false
		}
	case stringEscape:
		if r == '\\' {
			z.enter(plain)
			return false
		}
		z.enter(escape)
		return z.keep(r)
	}
	z.enter(plain)
	switch r {
	case 0x1b:
		z.enter(escape)
	case 0x9b:
		z.enter(control)
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		z.enter(controlString)
	}
	return visible(r)
}

func (z *Sanitizer) enter(s sequence) { z.state, z.n = s, 0 }

// visible reports whether r is newline, tab, or a rune that neither controls the terminal nor hides text.
func visible(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return true
	case r < 0x20, r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return false
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidirectional marks
		return false
	case r == 0x00ad, r == 0x200b, r == 0x2028, r == 0x2029, r == 0x2060, r == 0xfeff, r >= 0xfff9 && r <= 0xfffb: // invisible
		return false
	case r >= 0xe0000 && r <= 0xe007f: // tags, which can hide whole sentences
		return false
	case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe: // noncharacters; the line editor uses some
		return false
	}
	return true
}

// oneLine returns the beginning of s, sanitized, on one line with single spaces.
func oneLine(s string) string {
	const enough = 4 << 10
	return strings.Join(strings.Fields(Sanitize(shorten.To(s, enough))), " ")
}

// oneName returns a sanitized path on one line. It keeps spaces, so that the path can be copied.
func oneName(path string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return utf8.RuneError
		}
		return r
	}, Sanitize(path))
}
