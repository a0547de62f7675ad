package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// marker matches what could be mistaken for the marks around blocks of data, or for control tokens that some model servers recognise within text.
var marker = regexp.MustCompile(`(?i)<(\s*/?\s*cortex:|\|[a-z_])`)

// encode returns v as JSON on one line. Strings in it cannot end the block that they are in. Invisible characters, which agents' ids may contain, are
// escaped.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return `""` // cannot happen: v consists of strings, numbers and structs
	}
	s := marker.ReplaceAllString(strings.TrimSuffix(b.String(), "\n"), `\u003c$1`)
	return escaped(s)
}

// escaped returns s with escapes for invisible characters.
func escaped(s string) string {
	if isPlain(s) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case !invisible(r):
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// plain returns a cleaned text for a block in which it stands unquoted.
func plain(s string) string { return marker.ReplaceAllString(s, "&lt;$1") }

// resultMark matches what could be mistaken for the marks of a block <result>, or for control tokens.
var resultMark = regexp.MustCompile(`(?i)<(\s*/?\s*result|\|[a-z_])`)

// InResult returns a cleaned text that does not end the block <result> in which it is to stand.
func InResult(text string) string { return resultMark.ReplaceAllString(text, "‹$1") }
