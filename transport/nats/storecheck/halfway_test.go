package storecheck

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestHalfway has files that a server was writing when it was killed: a check with changes removes them, one without changes does not, and one beside
// which the file is missing or empty is kept. Nothing is found, and no message is lost.
func TestHalfway(t *testing.T) {
	dir := store(t, 6, 10)
	m := remembered(t, dir, 6, false)
	messages := filepath.Dir(blockFile(dir, 1))
	good, err := os.ReadFile(blockFile(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.blk.tmp", "index.db.tmp", "7.blk.tmp"} {
		if err := os.WriteFile(filepath.Join(messages, name), good[:len(good)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (names []string) {
		t.Helper()
		all, err := os.ReadDir(messages)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if filepath.Ext(e.Name()) == tempSuffix {
				names = append(names, e.Name())
			}
		}
		return names
	}
	if r := examine(t, dir, Options{Memory: m}); len(r.Findings) > 0 || len(left()) != 3 {
		t.Errorf("a check without changes finds %+v and leaves %v", r.Findings, left())
	}
	if r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()}); len(r.Findings) > 0 || !slices.Equal(left(), []string{"7.blk.tmp"}) {
		t.Errorf("a check with changes finds %+v and leaves %v, want what may be all that is left of a block", r.Findings, left())
	}
	if got := state(t, dir); got.Msgs != 4 || got.LastSeq != 6 {
		t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
	}
}
