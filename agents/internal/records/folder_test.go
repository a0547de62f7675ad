package records_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents/internal/records"
)

// Each id has a folder of its own, directly in the folder of all, whatever it says. What is a name stays it, so that folders of older versions are found.
func TestFolder(t *testing.T) {
	dir, of := t.TempDir(), map[string]string{}
	long := strings.Repeat("é", 127)
	for _, id := range []string{"helper", "mcp_github.com", "Größe", "a=b", "a==b", "..a", "...", "a..b", long + "x"} {
		if got := records.Folder(dir, id); got != filepath.Join(dir, id) {
			t.Errorf("the folder of %q is %s, want its name", id, got)
		}
		of[records.Folder(dir, id)] = id
	}
	odd := []string{
		"", ".", "..", "/", "a/b", "a/", "./helper", "../helper", "../../project", "/etc", "helper/../x", "mcp_x/../../../project", "a\\b", `..\..\project`, "a\x00b", "a\x00", long + "xy", long + "xyz",
	}
	for _, id := range odd {
		odd = append(odd, filepath.Base(records.Folder(dir, id))) // as an id
	}
	for _, id := range odd {
		got := records.Folder(dir, id)
		if rest := strings.TrimPrefix(got, dir+string(filepath.Separator)); rest == got || strings.ContainsAny(rest, "/\\") {
			t.Errorf("the folder of %q is %s, want one in %s", id, got, dir)
		}
		if err := os.Mkdir(got, 0o700); err != nil {
			t.Errorf("the folder of %q cannot be made: %v", id, err)
		}
		if other, ok := of[got]; ok {
			t.Errorf("%q and %q have the same folder %s", id, other, got)
		}
		of[got] = id
	}
}
