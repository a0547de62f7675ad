package persona

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of what the user is shown of a call before a yes, in characters.
const (
	maxShownInput = 1000 // of the whole input, or else of each of its fields
	maxShownField = 32   // fields
)

// yesWords are the replies that consent. A reply with other words beside them, such as "ok, stop", does not.
var yesWords = []string{
	"y", "yes", "yep", "yeah", "yup", "ok", "okay", "sure", "do it", "go ahead", "allow", "true", "of course", "yes please", "yes sure", "yes do it",
	"yes go ahead", "yes of course", "ok do it", "ok go ahead", "ja", "ja bitte", "oui", "si", "sí", "sim", "是", "好",
}

// isYes reports whether a reply consents. A question mark stays, since "ok?" is no yes.
func isYes(said string) bool {
	if len(said) > 64 {
		return false
	}
	words := strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(said), ",", " ")), " ")
	words = strings.TrimFunc(words, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r) && !strings.ContainsRune("?¿？؟", r)
	})
	return slices.Contains(yesWords, words)
}

// shownInput returns the input of a call for the user who has to consent to it: on one line, with invisible characters as escapes. What a long text
// hides is counted, and hides no other field, since a yes is for all that the call says.
func shownInput(input json.RawMessage) string {
	if utf8.RuneCount(input) <= maxShownInput {
		return prompt.Shown(string(input), maxShownInput)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil {
		return shownPart(string(input))
	}
	names := slices.Sorted(maps.Keys(fields))
	var all []string
	for _, name := range names[:min(len(names), maxShownField)] {
		all = append(all, shownPart(quote(name))+": "+shownPart(string(fields[name])))
	}
	if n := len(names) - len(all); n > 0 {
		all = append(all, fmt.Sprintf("[%d more fields are not shown]", n))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// shownPart returns the beginning of a text, and how much it hides.
func shownPart(text string) string {
	shown := prompt.Shown(text, maxShownInput)
	if n := utf8.RuneCountInString(text); n > maxShownInput {
		shown += fmt.Sprintf(" [%d characters in all, the rest is not shown]", n)
	}
	return shown
}
