package cli

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/usage"
)

// policyAt is a policy in a file, with the messages about it.
type policyAt struct {
	*policyFile
	t    *testing.T
	told []string
}

func newPolicyAt(t *testing.T, text string) *policyAt {
	t.Helper()
	p := &policyAt{t: t}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &settings{program: self, node: &nodeSettings{policy: path, tell: func(line string) { p.told = append(p.told, strings.ReplaceAll(line, path, "FILE")) }}}
	var err error
	if p.policyFile, err = s.loadPolicy(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *policyAt) write(text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// want looks twice, and checks the rules in force and the messages.
func (p *policyAt) want(allowed bool, told ...string) {
	p.t.Helper()
	p.look()
	p.look()
	if got := p.inForce()().Allows("user", "shell", ""); got != allowed {
		p.t.Errorf("the shell is allowed: %v, want %v", got, allowed)
	}
	if diff := cmp.Diff(told, p.told); diff != "" {
		p.t.Errorf("told (-want +got):\n%s", diff)
	}
	p.told = nil
}

const denyShell = "rules: [{agents: [shell], allow: false}]\n"

func TestPolicyReload(t *testing.T) {
	p := newPolicyAt(t, denyShell)
	p.want(false)

	p.write("rules: []\n")
	p.want(true, "the rules in FILE are new: 0 in force now")
	p.want(true)

	p.write(denyShell)
	p.want(false, "the rules in FILE are new: 1 in force now")

	p.write("rules: [{agents: [shell], allaw: false}]\n")
	p.want(false, `--policy: FILE: rule 1: unknown key "allaw": did you mean allow? (line 1): the rules from before stay in force`)
	p.want(false)

	p.write("")
	p.want(false, "--policy: FILE: there is nothing in it: write `rules: []` to have no rules: the rules from before stay in force")

	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	p.want(false, "--policy: FILE is gone: the rules from before stay in force")
	p.want(false)

	p.write("rules: []\n")
	p.want(true, "the rules in FILE are new: 0 in force now")
}

// TestPolicySameSize checks that a change that keeps the file's size and time is noticed while the time is recent.
func TestPolicySameSize(t *testing.T) {
	p := newPolicyAt(t, denyShell)
	was, err := os.Stat(p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.write(strings.ReplaceAll(denyShell, "shell", "other"))
	if err := os.Chtimes(p.path, was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
	p.want(true, "the rules in FILE are new: 1 in force now")
}

// TestPolicyUntouched checks that an old unchanged file is not read.
func TestPolicyUntouched(t *testing.T) {
	p := newPolicyAt(t, denyShell)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(p.path, old, old); err != nil {
		t.Fatal(err)
	}
	p.want(false)
	p.write(strings.ReplaceAll(denyShell, "shell", "other"))
	if err := os.Chtimes(p.path, old, old); err != nil {
		t.Fatal(err)
	}
	p.want(false)
}

// TestPolicyHalfWritten checks that content seen only once, which may be incomplete, has no effect.
func TestPolicyHalfWritten(t *testing.T) {
	p := newPolicyAt(t, denyShell)
	for _, half := range []string{"rules: []\n", "rules: [{agents: [a], allow: false}]\n", denyShell} {
		p.write(half)
		p.look()
	}
	p.want(false)
}

func TestPolicyAtStart(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("rule: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		broken:                       `--policy: FILE: unknown key "rule": did you mean rules? (line 1)`,
		filepath.Join(dir, "nobody"): "--policy: FILE: no such file or directory",
		dir:                          "--policy: FILE is not a file",
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
	if f, err := (&settings{program: self, node: &nodeSettings{}}).loadPolicy(nil); f != nil || err != nil || f.inForce() != nil {
		t.Errorf("without --policy: %v, %v", f, err)
	}
}
