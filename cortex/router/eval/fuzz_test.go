package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
)

// FuzzLines reads arbitrary input as agents, and as queries for them.
func FuzzLines(f *testing.F) {
	for _, s := range documenttest.Seeds() {
		f.Add(s)
	}
	for _, s := range []string{
		"{\"id\":\"a\",\"skills\":[{\"id\":\"s\"}]}\n{\"id\":\"b\"}", "{\"query\":\"q\",\"agents\":[\"a\"]}", strings.Repeat("\n", 10_000), "{\"id\":\"a\"}\n{\"id\":\"a\"}",
		strings.Repeat(`{"id":`, 2000), "null\n", "{}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := readAgents(t.Context(), []string{name})
		if err != nil {
			d = &directory{}
		}
		_, err2 := readQueries(t.Context(), name, d, false, false)
		for _, err := range []error{err, err2} {
			if err != nil && !strings.HasPrefix(err.Error(), name) {
				t.Errorf("of %q: %v does not name the file", s, err)
			}
		}
	})
}
