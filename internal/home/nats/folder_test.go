package nats

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKeyed looks at folders that were served with keys, or not, and at one that cannot be read: that one counts as keyed.
func TestKeyed(t *testing.T) {
	for what, c := range map[string]struct {
		streams string // of an account
		loop    string // cannot be read
		want    bool
	}{
		"empty":               {"", "", false},
		"without keys":        {"jetstream/$G/streams/CORTEX_INBOX", "", false},
		"with keys":           {"jetstream/AB/streams/CORTEX_INBOX", "", true},
		"another's":           {"jetstream/AB/streams/other", "", false},
		"unreadable":          {"", "jetstream", true},
		"an unreadable one":   {"jetstream/AB", "jetstream/AB/streams", true},
		"unreadable, no keys": {"jetstream/$G", "jetstream/$G/streams", false},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, c.streams), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.loop != "" {
			path := filepath.Join(dir, c.loop)
			if err := os.Symlink(path, path); err != nil {
				t.Fatal(err)
			}
		}
		if got := folder(dir).Keyed(); got != c.want {
			t.Errorf("%s: Keyed() = %v", what, got)
		}
	}
}
