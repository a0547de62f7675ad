package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// marker finds what could be taken for the marks around data blocks, or for the control tokens that some model servers
// still read in the middle of a text.
var marker = regexp.MustCompile(`(?i)<(\s*/?\s*cortex:|\|[a-z_])`)

// encode returns v as JSON on one line. Its strings cannot end the block that they are in, and characters that cannot
// be seen, which cleaned texts do not have but agents' ids may, are written as escapes.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return `""` // cannot be: only strings, numbers and structs of them are encoded here
	}
	s := marker.ReplaceAllString(strings.TrimSuffix(b.String(), "\n"), `\u003c$1`)
	return escaped(s)
}

// escaped returns s with escapes in the place of what cannot be seen.
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

// plain returns s, which is cleaned, for a block where it stands as it is.
func plain(s string) string { return marker.ReplaceAllString(s, "&lt;$1") }
