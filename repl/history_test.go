package repl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := history{path: path}
	if texts, err := h.load(); err != nil || texts != nil {
		t.Fatalf("load without a file = %q, %v", texts, err)
	}
	for _, tc := range []struct {
		text string
		want bool
	}{{"one", true}, {"one", false}, {"two\nlines \\n", true}, {" secret", false}, {strings.Repeat("x", maxRecall+1), false}, {"one", true}} {
		if got, err := h.add(tc.text); err != nil || got != tc.want {
			t.Errorf("add(%.20q) = %v, %v, want %v", tc.text, got, err, tc.want)
		}
	}
	again := history{path: path}
	texts, err := again.load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two\nlines \\n", "one"}, texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	if got, _ := again.add("one"); got {
		t.Error("the last text of the file was added again")
	}
}

func TestHistoryShortens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	for i := range maxHistory + 5 {
		fmt.Fprintf(&b, "text %d\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	h := history{path: path}
	texts, err := h.load()
	if err != nil || len(texts) != maxHistory || texts[0] != "text 5" {
		t.Fatalf("load = %d texts from %q, %v", len(texts), texts[0], err)
	}
	left, err := os.ReadFile(path)
	if err != nil || strings.Count(string(left), "\n") != maxHistory {
		t.Errorf("the file has %d lines, %v, want %d", strings.Count(string(left), "\n"), err, maxHistory)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestHistoryUnreadable(t *testing.T) {
	h := history{path: t.TempDir()}
	if _, err := h.load(); err == nil {
		t.Error("load of a folder gives no error")
	}
}
