package tests

import (
	"path/filepath"
	"regexp"
	"testing"
)

// TestAgentNewCommand checks that the command to copy is broken between its words on a terminal that is too narrow for it.
func TestAgentNewCommand(t *testing.T) {
	t.Parallel()
	begin := open(t, "agent", "new", "trips", "--lang", "python", "--dir", filepath.Join(t.TempDir(), "trips"))
	begin.shows("Then say in the chat: @trips hello")
	begin.ends(0)
	want := regexp.MustCompile(`\n    cortex agent exec (?:\\\n +)?--card \S+ \\\n +--protocol jsonl --keep -- (?:\\\n +)?\S+trips\.py\n`)
	if text := trimmed(begin); !want.MatchString(text) {
		t.Errorf("it shows\n%s\nwant %s", text, want)
	}
}
