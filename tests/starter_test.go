package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/app"
)

// TestNewAgentInGo builds the agent that `cortex agent new --lang go` writes against this module, as `go mod tidy` would against the published one,
// and gives it work.
func TestNewAgentInGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gopher")
	var out bytes.Buffer
	if code := app.Run(t.Context(), app.Options{}, []string{"agent", "new", "gopher", "--lang", "go", "--dir", dir}, strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("agent new: exit status %d: %s", code, &out)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums := read(t, "go.sum")
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(sums), 0o600); err != nil {
		t.Fatal(err)
	}
	const module = "github.com/cortex-orchestrator/cortex"
	for _, args := range [][]string{
		{"go", "mod", "edit", "-require", module + "@v0.0.0", "-replace", module + "=" + here},
		{"go", "build", "-mod=mod", "-buildvcs=false", "-o", "gopher", "."},
		{filepath.Join(dir, "gopher"), "ask", "--agent", "gopher", "--data", filepath.Join(dir, "data"), "hello"},
	} {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dir
		got, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, got)
		}
		if args[1] == "ask" && string(got) != "gopher was told: hello\n" {
			t.Errorf("the agent answers %q", got)
		}
	}
}
