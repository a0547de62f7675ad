package storecheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopiedStream copies the folder of a stream within the store. A check without changes gives an advice, one with changes sets the unchanged
// copy aside, and the next one reports nothing.
func TestCopiedStream(t *testing.T) {
	dir := store(t, 10, 100)
	from := filepath.Join(dir, "jetstream", "$G", "streams", stream)
	to := filepath.Join(filepath.Dir(from), "EVIL")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join("msgs", "1.blk")
	want, err := os.ReadFile(filepath.Join(to, block))
	if err != nil {
		t.Fatal(err)
	}
	check := func(aside string) (found []Finding) {
		t.Helper()
		report, err := Check(t.Context(), dir, Options{Aside: aside})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			if f.Stream == "EVIL" {
				found = append(found, f)
			}
		}
		return found
	}
	found := check("")
	if len(found) != 1 || found[0].Level != Made || !strings.Contains(found[0].What, "move it out of the store") {
		t.Errorf("found %+v of a copy, want one that says what to do", found)
	}
	aside := filepath.Join(dir, "damaged")
	found = check(aside)
	if kept := filepath.Join(aside, "$G", "EVIL"); len(found) != 1 || found[0].Archive != kept {
		t.Fatalf("found %+v of a copy, want that it is kept in %s", found, kept)
	}
	if got, err := os.ReadFile(filepath.Join(found[0].Archive, block)); err != nil || string(got) != string(want) {
		t.Errorf("the copy is not as it was: %d bytes, %v, want %d", len(got), err, len(want))
	}
	if found = check(aside); len(found) > 0 || exists(to) {
		t.Errorf("found %+v after the copy is set aside", found)
	}
}
