package persona_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/agents/persona"
)

// TestGrepEnds checks that a search ends with its context also within a line for which its pattern takes long, that patterns that would take hours are
// refused, and that a long line is searched to its end.
func TestGrepEnds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "long.txt"), []byte(strings.Repeat("x", 300<<10)+" end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	for _, pattern := range []string{"x end$", "^x", "end"} {
		if got, err := persona.Grep(t.Context(), root, pattern, ""); err != nil || !strings.HasPrefix(got, "long.txt:1: x") {
			t.Errorf("Grep(%q) = %.40q, %v", pattern, got, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := persona.Grep(ctx, root, "(x{1,30}){1,15}$", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Grep of a context that ends = %.40q, %v", got, err)
	}
	if got, err := persona.Grep(t.Context(), root, strings.Repeat("(x{1,30}){1,30}", 4), ""); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("Grep of a huge pattern = %.40q, %v", got, err)
	}
}

// TestGrepTellsWhatItLeavesOut checks that a search says so when it has not seen all: what it does not find is taken for what is not there.
func TestGrepTellsWhatItLeavesOut(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"long.txt": strings.Repeat("line\n", 1<<20) + "needle\n", "short.txt": "hay\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	const note = "[of 1 files, such as long.txt, only the first 2097152 bytes were searched]"
	for pattern, want := range map[string]string{"needle": "no line matches\n" + note, "hay": "short.txt:1: hay\n" + note} {
		if got, err := persona.Grep(t.Context(), root, pattern, ""); err != nil || got != want {
			t.Errorf("Grep(%q) = %q, %v, want %q", pattern, got, err, want)
		}
	}
	if got, err := persona.Grep(t.Context(), root, "hay", "short.txt"); err != nil || got != "short.txt:1: hay" {
		t.Errorf("Grep of a file that is searched to its end = %q, %v", got, err)
	}
}
