package repl

import (
	"strings"
	"unicode"
)

// textWidth returns the number of columns that s takes on a terminal; s has no control characters.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is right for what people write and on the safe side elsewhere: a rune taken for too wide costs a column, one
// taken for too narrow breaks a repainted line.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// fit returns s if it takes at most width columns, else its beginning with an ellipsis.
func fit(s string, width int) string {
	if textWidth(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	used := 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > width-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
		used += w
	}
	return s
}

// pad returns s filled with spaces to width columns.
func pad(s string, width int) string {
	if n := width - textWidth(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// wrap breaks s, one line of text, at spaces so that no line is wider than width. Words that are wider are broken.
func wrap(s string, width int) []string {
	width = max(width, 1)
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && textWidth(line)+1+textWidth(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for textWidth(word) > width {
			i, used := 0, 0
			for j, r := range word {
				if used += runeWidth(r); used > width && j > 0 {
					i = j
					break
				}
			}
			if i == 0 {
				break // one rune, wider than the line
			}
			lines, word = append(lines, word[:i]), word[i:]
		}
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
