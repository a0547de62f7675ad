//go:build unix

package persona_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents/persona"
)

// A file that is replaced keeps its mode, and no other file is touched for it, whatever name it has.
func TestReplacedFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(os.WriteFile(at("secret"), []byte("one"), 0o600), os.WriteFile(at("run.sh"), []byte("one"), 0o600), os.Chmod(at("run.sh"), 0o777),
		os.WriteFile(at("secret.cortex-part"), []byte("mine"), 0o600), syscall.Mkfifo(at("run.sh.cortex-part"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := open(t, "permissionMode: acceptEdits", persona.Options{Root: root}, call("Write", `{"path":"secret","content":"two"}`, "Edit", `{"path":"run.sh","old_string":"one","new_string":"two"}`), answer("done"))
	if got := w.do(task("write")); got != "completed: done" {
		t.Fatalf("the task is %s", got)
	}
	for name, want := range map[string]os.FileMode{"secret": 0o600, "run.sh": 0o777} {
		info, err := os.Stat(at(name))
		b, _ := os.ReadFile(at(name))
		if err != nil || info.Mode().Perm() != want || string(b) != "two" {
			t.Errorf("%s has %q and mode %v, %v, want %v", name, b, info.Mode(), err, want)
		}
	}
	if b, err := os.ReadFile(at("secret.cortex-part")); string(b) != "mine" {
		t.Errorf("another file has %q, %v", b, err)
	}
	if all, err := os.ReadDir(dir); len(all) != 4 {
		t.Errorf("there are %v, %v", all, err)
	}
}
