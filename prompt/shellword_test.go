package prompt

import (
	"os/exec"
	"testing"
)

// TestShellWord has the available shells parse each word, and the word after it.
func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"weather-1_2": "weather-1_2", "/a/b.c:@%+,=": "/a/b.c:@%+,=",
		"": "''", "a b": "'a b'", "=ls": "'=ls'", "~root": "'~root'", "$(id)": "'$(id)'", "`id`": "'`id`'", "a;b": "'a;b'", "!1": "'!1'",
		"it's": `'it'\''s'`, `C:\a b`: `'C:\a b'`, `a\`: `'a'\\''`, `\';echo x;'`: `''\\''\'';echo x;'\'''`, `a\\b`: `'a'\\''\\'b'`,
	} {
		got := ShellWord(s)
		if got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", s, got, want)
		}
		for _, shell := range []string{"sh", "bash", "zsh", "fish"} {
			path, err := exec.LookPath(shell)
			if err != nil {
				continue
			}
			out, err := exec.Command(path, "-c", `printf '<%s>' `+got+" "+got).CombinedOutput()
			if want := "<" + s + "><" + s + ">"; err != nil || string(out) != want {
				t.Errorf("%s reads %s as %s, %v", shell, got, out, err)
			}
		}
	}
}

// TestShellWordIsClean checks that control characters, which a terminal would interpret when the word is pasted, are removed.
func TestShellWordIsClean(t *testing.T) {
	if got, want := ShellWord("a\x1b[31m\nb\x00"), "'a b'"; got != want {
		t.Errorf("ShellWord = %q, want %q", got, want)
	}
}
