// Package nesting measures how deep texts are nested, since readers that recurse end with a text that is nested too deep.
package nesting

// Depth returns how deep a JSON text is nested: 0 for a number or a string. The text may be invalid.
func Depth(text []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
