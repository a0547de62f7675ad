package prompt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestEndlessTemplate gives a template that repeats a text without end: it is refused before it takes all memory.
func TestEndlessTemplate(t *testing.T) {
	dir := t.TempDir()
	text := `{{range 9999999999}}` + strings.Repeat("x", 4096) + `{{end}}`
	if err := os.WriteFile(filepath.Join(dir, "system.tmpl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prompt.New(dir); err == nil || !strings.Contains(err.Error(), "gives more than") {
		t.Errorf("New() = %v", err)
	}
}
