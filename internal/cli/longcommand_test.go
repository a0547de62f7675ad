package cli

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// TestCommandLines checks that a long command is broken between its words, and means the same in a shell.
func TestCommandLines(t *testing.T) {
	const long = "cortex agent exec --card trips/card.yaml --protocol jsonl --keep -- ./trips/trips.py"
	for _, test := range []struct {
		command string
		width   int
		want    string
	}{
		{long, 0, "    " + long},
		{long, 88, "    " + long},
		{long, 80, "    cortex agent exec --card trips/card.yaml --protocol jsonl --keep -- \\\n        ./trips/trips.py"},
		{
			long, 50,
			"    cortex agent exec --card trips/card.yaml \\\n        --protocol jsonl --keep -- \\\n        ./trips/trips.py",
		},
		{"cortex ask --conversation 01a217c0-7c36-7857-b336-feca3b076d1b 'two  words'", 40, "    cortex ask \\\n        --conversation 01a217c0-7c36-7857-b336-feca3b076d1b \\\n        'two  words'"},
	} {
		got := commandLines(test.command, "    ", test.width)
		if got != test.want {
			t.Errorf("%q at %d:\n%s\nwant\n%s", test.command, test.width, got, test.want)
		}
		joined := strings.ReplaceAll(strings.ReplaceAll(got, " \\\n            ", " "), " \\\n        ", " ")
		if strings.TrimSpace(joined) != test.command {
			t.Errorf("a shell would run %q, want %q", joined, test.command)
		}
		for line := range strings.Lines(got) {
			if w := table.Width(strings.TrimSuffix(line, "\n")); test.width >= 50 && w > test.width {
				t.Errorf("%q has %d columns, want %d at most", line, w, test.width)
			}
		}
	}
}

// TestAdviceText checks that each line of advice can be copied into a shell, at any width.
func TestAdviceText(t *testing.T) {
	pairs := []string{"nats-server --signal reload", "on a server of your own, with the new /home/ada/.local/state/cortex/auth/resolver.conf"}
	want := `    # on a server of your own, with the new
    # /home/ada/.local/state/cortex/auth/resolver.conf
    nats-server --signal reload
`
	if got := adviceText(60, pairs); got != want {
		t.Errorf("advice is\n%s\nwant\n%s", got, want)
	}
	if got := adviceText(0, pairs); got != "    "+pairs[0]+"  "+pairs[1]+"\n" {
		t.Errorf("advice in a pipe is %q", got)
	}
}
