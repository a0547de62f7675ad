package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// full fails every write, like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestOutputIsLost checks that a command whose output fails reports that and fails.
func TestOutputIsLost(t *testing.T) {
	for _, args := range [][]string{
		{}, {"help"}, {"--help"}, {"serve", "--help"}, {"help", "settings"}, {"completion", "bash"}, {"version"}, {"version", "--json"}, {"llm", "list"}, {"llm"}, {"auth", "init", t.TempDir() + "/keys"},
	} {
		var stderr bytes.Buffer
		code := Run(t.Context(), args, strings.NewReader(""), full{}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "cortex: no space left on device\n") {
			t.Errorf("cortex %s: exit status %d, want 1; it says %q", strings.Join(args, " "), code, &stderr)
		}
	}
}
