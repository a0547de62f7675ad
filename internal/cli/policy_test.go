package cli

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/usage"
)

func TestPolicyAtStart(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("rule: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		broken:                       `--policy: FILE: unknown key "rule": did you mean rules? (line 1)`,
		filepath.Join(dir, "nobody"): "--policy: FILE: no such file or directory",
		dir:                          "--policy: FILE is a folder, not a file",
	} {
		s := &settings{program: self, node: &nodeSettings{policy: path}}
		_, err := s.loadPolicy(slog.New(slog.DiscardHandler))
		var wrong usage.Error
		if err == nil || !errors.As(err, &wrong) {
			t.Errorf("loadPolicy(%s) = %v, want a usage error", path, err)
		} else if got := strings.ReplaceAll(err.Error(), path, "FILE"); got != want {
			t.Errorf("loadPolicy() = %q, want %q", got, want)
		}
	}
	if f, err := (&settings{program: self, node: &nodeSettings{}}).loadPolicy(nil); f != nil || err != nil || f.InForce() != nil {
		t.Errorf("without --policy: %v, %v", f, err)
	}
}
