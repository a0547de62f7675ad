package fake

import (
	"slices"
	"strings"
	"testing"
)

// TestCorrecting checks that what is looked for first finds everything that takes something back.
func TestCorrecting(t *testing.T) {
	for _, said := range []string{
		"oh wait", "No, wait", "wait, no", "no sorry", "sorry, no", "Scratch that", "no, make that", "no make it", "make that", "or rather", "I mean", "sorry, I meant",
	} {
		if !correction.MatchString("1+2, " + said + " 3") {
			t.Errorf("%q corrects nothing", said)
		}
		if !slices.ContainsFunc(correcting, func(word string) bool { return strings.Contains(strings.ToLower(said), word) }) {
			t.Errorf("%q is not looked for", said)
		}
	}
}
