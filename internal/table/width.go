package table

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width returns the number of terminal columns of s, which has no control characters.
func Width(s string) int { return uniseg.StringWidth(s) }

// UpTo returns the beginning of s that takes at most width columns. It does not split grapheme clusters: an accent or a skin colour stays with its
// character.
func UpTo(s string, width int) string {
	rest, state, used := s, -1, 0
	for rest != "" {
		_, next, w, nextState := uniseg.FirstGraphemeClusterInString(rest, state)
		if used += w; used > width {
			break
		}
		rest, state = next, nextState
	}
	return s[:len(s)-len(rest)]
}

// Fit returns s if it takes at most width columns, otherwise its beginning with an ellipsis, cut between words unless that wastes much of the room.
func Fit(s string, width int) string {
	if len(UpTo(s, width)) == len(s) {
		return s
	}
	if width <= 0 {
		return ""
	}
	part := UpTo(s, width-1)
	if at := strings.LastIndexByte(part, ' '); at > len(part)/3 && s[len(part)] != ' ' {
		part = part[:at]
	}
	return strings.TrimRight(part, " ") + "…"
}

// Pad pads s with spaces to width columns.
func Pad(s string, width int) string {
	if n := width - Width(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// Wrap breaks s, one line of text, at spaces so that no line is wider than width. Words that are wider are broken; commands in backquotes are not.
func Wrap(s string, width int) []string {
	width = max(width, 1)
	var lines []string
	line := ""
	for _, word := range Together(strings.Fields(s), " ", width) {
		if line != "" && Width(line)+1+Width(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for part := UpTo(word, width); len(part) < len(word); part = UpTo(word, width) {
			if part == "" { // a character that is wider than the line
				part, _, _, _ = uniseg.FirstGraphemeClusterInString(word, -1)
			}
			lines, word = append(lines, part), word[len(part):]
		}
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Together joins the words between two backquotes, which sep separates, if a line has room for them: users copy commands, and a shell runs half of one
// that is on two lines.
func Together(words []string, sep string, width int) []string {
	odd := func(word string) bool { return strings.Count(word, "`")%2 == 1 }
	var all []string
	for len(words) > 0 {
		n := 1
		if odd(words[0]) {
			for n < len(words) && !odd(words[n]) {
				n++
			}
			n = min(n+1, len(words))
		}
		whole := strings.Join(words[:n], sep)
		if n > 1 && (!odd(words[n-1]) || Width(strings.TrimRight(whole, " ")) > width) {
			all = append(all, words[:n]...)
		} else {
			all = append(all, whole)
		}
		words = words[n:]
	}
	return all
}
