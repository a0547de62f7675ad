package nats

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKeyed looks at folders that were served with keys, or not, and at some that cannot be read.
func TestKeyed(t *testing.T) {
	for what, c := range map[string]struct {
		streams string // of an account
		loop    string // cannot be read
		want    string // "?": an error
	}{
		"empty":               {"", "", "no"},
		"without keys":        {"jetstream/$G/streams/CORTEX_INBOX", "", "no"},
		"with keys":           {"jetstream/AB/streams/CORTEX_INBOX", "", "yes"},
		"another's":           {"jetstream/AB/streams/other", "", "no"},
		"unreadable":          {"", "jetstream", "?"},
		"an unreadable one":   {"jetstream/AB", "jetstream/AB/streams", "?"},
		"unreadable, no keys": {"jetstream/$G", "jetstream/$G/streams", "no"},
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
		if got, err := folder(dir).Keyed(); got != (c.want == "yes") || (err != nil) != (c.want == "?") {
			t.Errorf("%s: Keyed() = %v, %v, want %s", what, got, err, c.want)
		}
	}
}
