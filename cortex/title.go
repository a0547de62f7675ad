package cortex

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxTitle bounds a title, in bytes.
const maxTitle = 80

// Title returns the title that e gives its conversation, see [ContextInfo], and whether it gives one: a user's message
// does. Runs of space become one; what does not print is left out, since a title is shown on a terminal.
func (e *Entry) Title() (title string, ok bool) {
	if e.Cause == nil {
		return "", false
	}
	m, ok := userMessage(e.Cause)
	if !ok {
		return "", false
	}
	var b strings.Builder
	gap := "" // the space before the next word
	for _, r := range prompt.CleanText(transport.Text(m.Parts), 64*maxTitle) {
		switch {
		case unicode.IsSpace(r):
			if b.Len() > 0 {
				gap = " "
			}
			continue
		case !unicode.IsGraphic(r) || r == utf8.RuneError:
			continue
		}
		if b.Len()+len(gap)+utf8.RuneLen(r) > maxTitle {
			break
		}
		b.WriteString(gap)
		b.WriteRune(r)
		gap = ""
	}
	return b.String(), true
}
