package prompt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestNoTemplates checks that a folder without templates is an error, since it is probably the wrong one.
func TestNoTemplates(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if _, err := prompt.New(dir); err == nil || !strings.Contains(err.Error(), dir+" has none: name a folder with files such as agent.tmpl") {
			t.Errorf("New() = %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "system.txt"), []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
