package cli_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/cli"
)

// TestEvalRoutingStatus checks the exit status, 2 for mistakes in the command line and 1 for those in files, and that errors are one line.
func TestEvalRoutingStatus(t *testing.T) {
	agents, queries := "--agents=../../cortex/router/eval/testdata/agents.jsonl", "--queries=../../cortex/router/eval/testdata/queries.jsonl"
	bad := "--queries=" + writeFile(t, "bad.jsonl", "{\"query\":\"q\",\"agents\":[\"\\u001b[2J\\n\"]}\n")
	t.Setenv("CORTEX_AGENTS", "echo") // the agents of a chat, not files
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"measured":         {[]string{agents, queries}, 0},
		"no agents":        {[]string{queries}, 2},
		"no queries":       {[]string{agents}, 2},
		"k is no number":   {[]string{agents, queries, "--k", "many"}, 2},
		"k of 0":           {[]string{agents, queries, "--k", "0"}, 2},
		"unknown flag":     {[]string{agents, queries, "--top", "1"}, 2},
		"an argument":      {[]string{agents, queries, "more"}, 2},
		"hostile id":       {[]string{agents, bad}, 1},
		"no such file":     {[]string{agents, "--queries=nothing"}, 1},
		"a folder":         {[]string{agents, "--queries=" + t.TempDir()}, 1},
		"no file to learn": {[]string{agents, queries, "--learn", "nothing"}, 1},
	} {
		var stdout, stderr output
		got := cli.Run(t.Context(), append([]string{"eval", "routing"}, c.args...), strings.NewReader(""), &stdout, &stderr)
		if got != c.want {
			t.Errorf("%s: exit status %d, want %d; it says %s", name, got, c.want, &stderr)
		}
		if text := stderr.String(); c.want != 0 && (strings.Count(text, "\n") != 1 || strings.Contains(text, "\x1b") || stdout.String() != "") {
			t.Errorf("%s: it says %q, and %q on standard output; want one clean line, and nothing", name, text, stdout.String())
		}
	}
}
