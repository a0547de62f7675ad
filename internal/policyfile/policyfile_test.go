package policyfile

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// policyAt is a policy in a file, with the messages about it.
type policyAt struct {
	*File
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
	var err error
	tell := func(line string) { p.told = append(p.told, strings.ReplaceAll(line, path, "FILE")) }
	if p.File, err = Open(path, slog.New(slog.DiscardHandler), tell); err != nil {
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
	if got := p.InForce()().Allows("user", "shell", ""); got != allowed {
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

// TestPolicyTrouble checks that the trouble is there for as long as the file does not say what is in force.
func TestPolicyTrouble(t *testing.T) {
	p := newPolicyAt(t, denyShell)
	trouble := func(want string) {
		t.Helper()
		p.look()
		p.look()
		if got := strings.Join(p.Trouble(), ""); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("the trouble is %q, want %q", got, want)
		}
	}
	const bad = "rules: [{agents: [shell], allaw: false}]\n"
	trouble("")
	p.write(bad)
	trouble(`unknown key "allaw"`)
	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	trouble("is gone")
	p.write(bad)
	trouble(`unknown key "allaw"`)
	p.write(denyShell)
	trouble("")
}
