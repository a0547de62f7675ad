package tests

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAskForAYes checks that a question that needs consent waits for it on a terminal, and does not where nobody can give it.
func TestAskForAYes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, policy, config := filepath.Join(dir, "data"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "config.yaml")
	for path, text := range map[string]string{
		policy: "rules:\n  - agents: [agent_echo]\n    confirm: true\n",
		config: "policy: " + policy + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := open(t, "ask", "--data", data, "--config", config, "echo the house")
	ask.shows("Do it? Answer yes or no.")
	ask.shows("reply> ")
	ask.types("yes\r")
	ask.shows("Echo: the house")
	ask.ends(0)

	ask = open(t, "ask", "--data", data, "--config", config, "--conversation", "left", "echo the garden")
	ask.shows("Do it? Answer yes or no.")
	ask.shows("reply> ")
	ask.types("\r")
	ask.shows("it waits for your yes or no:")
	ask.shows("cortex ask --config")
	ask.ends(3)

	ask = open(t, "ask", "--data", data, "--config", config, "--conversation", "stopped", "echo the shed")
	ask.shows("reply> ")
	ask.types("\x03")
	ask.shows("it waits for your yes or no:")
	ask.shows("--conversation stopped yes")
	ask.ends(130)

	// A yes is for what this terminal has shown.
	ask = open(t, "ask", "--data", data, "--config", config, "--conversation", "both", "echo the roof")
	ask.shows("reply> ")
	other := open(t, "ask", "--data", data, "--conversation", "both", "echo the cellar")
	other.shows(`is to: "the cellar". Do it?`)
	other.shows("reply> ")
	ask.types("yes\r")
	ask.shows("This question is not waited for any more: nothing was done.")
	ask.ends(1)
	other.types("no\r")
	other.shows("All right: nothing was done.")
	other.ends(0)
}

// TestAskFromATerminal checks a typed question, which ends with Ctrl-D.
func TestAskFromATerminal(t *testing.T) {
	t.Parallel()
	ask := open(t, "ask", "--data", t.TempDir(), "-")
	ask.types("echo the attic\r\x04")
	ask.shows("Echo: the attic")
	ask.ends(0)
}
