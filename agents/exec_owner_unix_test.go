//go:build unix

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFoldersOfOthersStay checks that an agent that starts removes what killed agents of its user have left, and looks at no folder of others.
func TestFoldersOfOthersStay(t *testing.T) {
	if os.Geteuid() != 0 { // only root can give a folder to somebody else
		const without = "the folders of other users are not tested: that needs root"
		if os.Getenv("CI") != "" {
			t.Fatal(without)
		}
		fmt.Fprintln(os.Stderr, "NOT RUN: "+without)
		t.Skip(without)
	}
	t.Setenv("TMPDIR", t.TempDir())
	now := time.Now()
	for name, owner := range map[string]int{"own": os.Geteuid(), "other": 65534} {
		dir := filepath.Join(os.TempDir(), folderPrefix+name)
		if err := os.MkdirAll(filepath.Join(dir, "out"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	removeFolders(now.Add(2 * folderAge))
	for name, want := range map[string]bool{"own": false, "other": true} {
		if _, err := os.Stat(filepath.Join(os.TempDir(), folderPrefix+name, "out")); (err == nil) != want {
			t.Errorf("the folder %s is there: %v, want %v", name, err == nil, want)
		}
	}
}
