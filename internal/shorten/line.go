package shorten

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s on one line, without control characters, in at most n bytes.
func Line(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), r == utf8.RuneError:
			return -1
		}
		return r
	}, escapes.ReplaceAllString(To(s, 4*n), ""))
	return To(strings.Join(strings.Fields(s), " "), n)
}

// escapes matches the escape sequences that colour a terminal, move its cursor or set its title (ECMA-48).
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?`)
