package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// wordsStub replaces what the script that cobra generates needs from the package bash-completion.
const wordsStub = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur="${COMP_WORDS[COMP_CWORD]}"; prev="${COMP_WORDS[COMP_CWORD-1]}"; }
__ltrim_colon_completions() { :; }
`

// TestTabRunsNothing completes ids that other people chose, in a bash that evaluates its line at each Tab: their common prefix must not become a
// command.
func TestTabRunsNothing(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Log("there is no bash, whose completion this is about")
		return
	}
	cortex := cortexPath(t)
	dir := t.TempDir()
	env := []string{"CORTEX_LLM=fake", "CORTEX_DATA=" + filepath.Join(dir, "data"), "HOME=" + dir}
	chat := openWith(t, env, "chat")
	chat.shows("3 agents online")
	ask := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), cortex, append([]string{"ask"}, args...)...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ask %q: %v: %s", args, err, out)
		}
	}
	for _, n := range []string{"1", "2"} {
		ask("--context", "k`touch${IFS}hit`"+n, "17*23")
		ask("--context", "kept"+n, "17*23")
	}
	script, err := exec.CommandContext(t.Context(), cortex, "completion", "bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	rc := filepath.Join(dir, "rc")
	if err := os.WriteFile(rc, append([]byte(wordsStub+"cd; PS1='ready> '\n"), script...), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := openProgram(t, 100, bash, env, "--noprofile", "--rcfile", rc, "-i")
	shell.shows("ready> ")
	shell.types("cortex conversations history k\t")
	shell.shows("ready> cortex conversations history kept") // the remaining two have this prefix in common
	shell.types("\t\t")
	shell.shows("kept2 ")
	if _, err := os.Stat(filepath.Join(dir, "hit")); err == nil {
		t.Errorf("a stranger's command ran; the screen:\n%s", shell.text())
	}
	shell.types("\x03\x04")
}
