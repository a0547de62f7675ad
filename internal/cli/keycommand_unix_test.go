//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/openai/openaitest"
)

// TestKeyCommand checks a model whose tokens come from a program: the first one is refused, and the next one is used, once obtained, for all calls of a
// command. No output shows them.
func TestKeyCommand(t *testing.T) {
	var paths []string
	good := secret + "-2"
	url := openaitest.Serve(t, func(c *llmtest.Call) *llmtest.Reply {
		if paths = append(paths, c.Key); c.Key != good {
			return &llmtest.Reply{Error: &llmtest.Fault{Status: 401, Message: "Incorrect token {key}."}}
		}
		if strings.Contains(c.System, "being checked") {
			return &llmtest.Reply{Pieces: []string{`{"kind":"respond",`, `"say":"one"}`}}
		}
		return orchestrate(c)
	}).URL
	config := writeFile(t, "cortex.yaml", fmt.Sprintf(`
llm: main
llms:
  main: {provider: openai, model: m, base_url: "%s/v1", api_key_command: [./token.sh, --for, "%s"], api: responses}
`, url, secret))
	script := filepath.Join(filepath.Dir(config), "token.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho run >>runs\necho "+secret+"-$(($(wc -l <runs)))\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(filepath.Dir(config), "runs")
	t.Setenv("CORTEX_AGENTS", "echo")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"ask", "--data", t.TempDir(), "hello"}, "It said: "},
		{[]string{"llm", "check", "main"}, "JSON    ok"},
	} {
		paths = nil
		if err := os.Remove(runs); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		got := run(t, append(tt.args, "--config", config)...)
		if got.code != 0 || !strings.Contains(got.stdout, tt.says) {
			t.Errorf("%v: %+v", tt.args, got)
		}
		if b, err := os.ReadFile(runs); err != nil || string(b) != "run\nrun\n" {
			t.Errorf("%v: the runs are %q: %v", tt.args, b, err)
		}
		if len(paths) < 2 || paths[0] != secret+"-1" || paths[len(paths)-1] != good {
			t.Errorf("%v: the tokens were %d", tt.args, len(paths))
		}
	}
	good = "none"
	if got := run(t, "llm", "check", "main", "--config", config); got.code != 1 || !strings.Contains(got.stderr+got.stdout, "Incorrect token [secret].") {
		t.Errorf("refused twice: %+v", got)
	}
	for _, args := range [][]string{{"config", "check"}, {"config", "show"}, {"llm", "list"}, {"llm", "list", "main"}} {
		if got := run(t, append(args, "--config", config)...); got.code != 0 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho 'Please run az login.' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "llm", "check", "main", "--config", config); got.code != 1 || !strings.Contains(got.stderr, "api_key_command: token.sh: exit status 1: Please run az login.") {
		t.Errorf("no token: %+v", got)
	}
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "config", "check", "--config", config); got.code == 0 || !strings.Contains(got.stderr, "api_key_command: ./token.sh: there is no such file") {
		t.Errorf("no program: %+v", got)
	}
	if got := run(t, "llm", "list", "--config", config); !strings.Contains(got.stdout, "needs token.sh") {
		t.Errorf("no program: %+v", got)
	}
}

// TestWrongKeyCommand checks what is said about wrong settings.
func TestWrongKeyCommand(t *testing.T) {
	for settings, want := range map[string]string{
		"provider: openai, api_key_command: [az], api_key_env: A_KEY":                  "api_key_command stands in the place of api_key_env and api_key_file",
		"provider: openai, api_key_command: [az], api_key_file: key":                   "api_key_command stands in the place of api_key_env and api_key_file",
		"provider: openai, api_key_command: []":                                        "llms.main.api_key_command: want a list of a program and its arguments",
		"provider: openai, api_key_command: ['', a]":                                   "llms.main.api_key_command: want a list of a program and its arguments",
		"provider: openai, api_key_command: az account get-access-token":               "llms.main.api_key_command: want a list, not a string",
		"provider: openai, api_key_command: [az, 7]":                                   "llms.main.api_key_command: want a text, not a number",
		"provider: openai, api_key_command: [az], headers_env: {authorization: A_KEY}": "headers_env: Authorization is what the token of api_key_command is sent as",
		"provider: gemini, api_key_command: [gcloud]":                                  "api_key_command is nothing for gemini: without a key, the credentials of project are used",
		"provider: openai, api: assistants":                                            `llms.main: api "assistants": it is chat or responses`,
		"provider: anthropic, api: responses":                                          "are nothing for anthropic",
		"provider: openai, api_key: sk-1":                                              "or a program with api_key_command",
	} {
		config := writeFile(t, "cortex.yaml", "llms: {main: {"+settings+"}}")
		if got := run(t, "config", "check", "--config", config); got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v, want %q", settings, got, want)
		}
	}
}
