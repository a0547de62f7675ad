package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTableOfWideText holds that columns stand below each other on a terminal, where some characters take two of its columns and some none.
func TestTableOfWideText(t *testing.T) {
	var out strings.Builder
	tab := newTable(&out, "ID", "TITLE", "STATE", "")
	tab.row("1", "plain", "open")
	tab.row("2", "✅ ❌ ⭐ ⏳ ⚡", "open")
	tab.row("3", "東京の天気", "open")
	tab.row("4", "cafe\u0301", "open", "more")
	tab.row("5", "한국어", "")
	tab.row("6", "a last cell is as long as it likes")
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	want := `ID  TITLE           STATE
1   plain           open
2   ✅ ❌ ⭐ ⏳ ⚡  open
3   東京の天気      open
4   cafe` + "\u0301" + `            open  more
5   한국어
6   a last cell is as long as it likes
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}
