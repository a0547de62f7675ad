package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// screen returns the output on a terminal with this many columns.
func screen(t *testing.T, columns uint16, print func(tty *os.File)) string {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	print(tty)
	const end = "<end>" // output may arrive in pieces
	if _, err := tty.WriteString(end); err != nil {
		t.Fatal(err)
	}
	var out string
	for b := make([]byte, 4096); !strings.HasSuffix(out, end); {
		n, err := master.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		out += string(b[:n])
	}
	out = regexp.MustCompile(`\r|\x1b\[\d*m`).ReplaceAllString(strings.TrimSuffix(out, end), "")
	for line := range strings.Lines(out) {
		if w := table.Width(strings.TrimSuffix(line, "\n")); w > int(columns) {
			t.Errorf("%d columns on %d: %s", w, columns, line)
		}
	}
	return out
}

// TestHistoryKeepsWidth checks that a conversation is readable on a narrow terminal: no line is wrapped by the terminal.
func TestHistoryKeepsWidth(t *testing.T) {
	line := &repl.Line{
		Time: time.Date(2026, 11, 20, 18, 1, 2, 0, time.Local), Kind: repl.LineResult, Who: "agent_ech0 (looks like agent_echo)",
		Text: "to be or not to be\n  that is the question, and nobody answers it",
	}
	for columns, want := range map[uint16]string{
		80: "2026-11-20 18:01:02  ← agent_ech0 (looks like agent_echo)\n" + strings.Repeat(" ", 39) + "to be or not to be\n" +
			strings.Repeat(" ", 41) + "that is the question, and nobody\n" + strings.Repeat(" ", 41) + "answers it\n",
		40: "2026-11-20 18:01:02  ← agent_ech0 (looks\nlike agent_echo)\n  to be or not to be\n    that is the question, and nobody\n    answers it\n",
		90: "2026-11-20 18:01:02  ← agent_ech0 (looks like agent_echo)\n" + strings.Repeat(" ", 39) + "to be or not to be\n" + strings.Repeat(" ", 39) +
			"  that is the question, and nobody answers it\n",
	} {
		got := screen(t, columns, func(tty *os.File) { (&env{stdout: tty}).printLine(line) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("on %d columns (-want +got):\n%s", columns, diff)
		}
	}
}

// TestPagesKeepWidth checks that the pages about replicas, the store, models and an agent fit a narrow terminal.
func TestPagesKeepWidth(t *testing.T) {
	now := time.Now()
	words := strings.Repeat("many words of a stranger ", 9)
	record := &registry.Record{
		ID: "agent_echo", Version: "1.0.0", State: registry.StateActive, RegisteredAt: now, Spec: &agentcard.Spec{},
		Card: &a2a.AgentCard{
			Name: "Echo Agent", Description: words,
			Skills: []a2a.AgentSkill{{ID: "echo", Name: strings.Repeat("Echo Messages ", 5), Description: words, Examples: []string{words}}},
		},
		Instances: []registry.Instance{{ID: "5f9d1f2e-6d3c-4a57-9c0e-0d9a3f5b7c11", State: registry.StateActive, Since: now, LastSeen: now}},
	}
	for what, print := range map[string]func(e *env) error{
		"replicas": func(e *env) error {
			return e.showReplicas([]transport.Owner{{ID: "5f9d1f2e6d3c4a579c0e", Label: "a-host-with-a-long-name/12345", Since: now, Partitions: []int{0, 2, 4, 6, 8, 10}}})
		},
		"doctor": func(e *env) error {
			return e.showDiagnosis(&diagnosis{
				Running: true, Damaged: true, Streams: []string{"$G/KV_CORTEX_AGENTS", "$G/CORTEX_LOG"}, forgotten: true,
				Findings: []storecheck.Finding{{Account: "$G", Stream: "CORTEX_LOG", What: words, Subjects: []string{"cortex.v1.timer._.cortex.a-talk"}}},
			})
		},
		"models": func(e *env) error {
			c := e.newLLMList()
			c.SetArgs(nil)
			return c.Execute()
		},
		"agent": func(e *env) error {
			return e.show(agentPage(record, "", now))
		},
		"more": func(e *env) error {
			t := table.New("AGENT", "STATE")
			t.Row("agent_echo", "active")
			err := e.show(t)
			e.sayMore(true)
			return err
		},
	} {
		for _, columns := range []uint16{80, 40} {
			t.Run(fmt.Sprint(what, columns), func(t *testing.T) {
				out := screen(t, columns, func(tty *os.File) {
					if err := print(&env{stdout: tty, stderr: tty, settings: settings{program: self, node: &nodeSettings{}}}); err != nil {
						t.Error(err)
					}
				})
				if strings.Count(out, "\n") < 2 {
					t.Errorf("it prints %q", out)
				}
			})
		}
	}
}

// TestTextKeepsWidth checks that a line beside a list is wrapped on a terminal, and not elsewhere.
func TestTextKeepsWidth(t *testing.T) {
	const text = "there are more: these are the 50 used last (--limit)"
	want := "there are more: these are the 50 used\nlast (--limit)\n"
	if got := screen(t, 40, func(tty *os.File) { printText(tty, "%s", text) }); got != want {
		t.Errorf("printText(%q) = %q on 40 columns, want %q", text, got, want)
	}
	var b strings.Builder
	if printText(&b, "%s", text); b.String() != text+"\n" {
		t.Errorf("printText(%q) = %q", text, b.String())
	}
}
