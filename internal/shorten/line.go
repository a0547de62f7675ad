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

// tab is what a tab of an indentation becomes.
const tab = "    "

// Indented is Line, but keeps the indentation, of at most n/2 bytes.
func Indented(s string, n int) string {
	s = escapes.ReplaceAllString(To(s, 4*n), "")
	text := strings.TrimLeft(s, " \t")
	indent := To(strings.ReplaceAll(s[:len(s)-len(text)], "\t", tab), n/2)
	if text = Line(text, n-len(indent)); text == "" {
		return ""
	}
	return indent + text
}

// escapes matches the escape sequences that colour a terminal, move its cursor or set its title (ECMA-48).
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?`)
