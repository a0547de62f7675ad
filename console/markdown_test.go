package console

import (
	"html"
	"strings"
	"testing"
)

// TestMarkdownLeavesJSON checks that data is shown as it is.
func TestMarkdownLeavesJSON(t *testing.T) {
	const text = `{"said":"\"a *b* c\"","at":"C:\\new"}`
	if got := string(markdown(text)); !strings.Contains(html.UnescapeString(got), text) {
		t.Errorf("%s is shown as %s", text, got)
	}
	if got := string(markdown(`{name} is *here*`)); !strings.Contains(got, "<em>here</em>") {
		t.Errorf("Markdown is shown as %s", got)
	}
}
