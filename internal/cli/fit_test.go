package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// aligned is what is printed of rows.
func aligned(t *testing.T, rows [][]string) string {
	t.Helper()
	var b strings.Builder
	if err := writeColumns(&b, "", rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFitCountsColumns holds that lists count columns of a terminal too, also where they cut.
func TestFitCountsColumns(t *testing.T) {
	got := aligned(t, fit([][]string{
		{"AGENT", "STATE", "DESCRIPTION"},
		{"天気", "active", "東京の天気を教えます。明日の天気も"},
		{"cafe\u0301", "active", "plain words that go on and on"},
		{"👩👩👧", "active", ""},
	}, 34, 0))
	want := `AGENT   STATE   DESCRIPTION
天気    active  東京の天気を教え…
cafe` + "\u0301" + `    active  plain words that…
👩👩👧  active
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

// TestFitKeepsWidth holds that one agent with a long id and version neither breaks the lines of all nor hides what is said of it.
func TestFitKeepsWidth(t *testing.T) {
	rows := [][]string{
		{"AGENT", "STATE", "INSTANCES", "SEEN", "VERSION", "DESCRIPTION"},
		{"agent_echo", "active", "1", "3 s ago", "1.0.0", "Repeats what it is told"},
		{strings.Repeat("天", 30), "active", "1", "3 s ago", strings.Repeat("9.", 30), "looks like agent_echo · " + strings.Repeat("x", 80)},
	}
	const mark = "looks like agent_echo"
	for _, width := range []int{200, 100, 80, 60, 40, 20, 5, 1} {
		got := aligned(t, withMarks(fit(rows, width, 0), map[int][]string{2: {mark}}, width))
		for line := range strings.Lines(got) {
			if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > width && width > 3 {
				t.Errorf("%d columns on %d: %s", w, width, line)
			}
		}
		if !strings.Contains(got, "agent_echo ") && width > 10 {
			t.Errorf("the short id is cut at %d columns:\n%s", width, got)
		}
		if all := strings.Join(strings.Fields(got), ""); !strings.Contains(all, strings.ReplaceAll(mark, " ", "")) {
			t.Errorf("the other name is not there at %d columns:\n%s", width, got)
		}
		if n := strings.Count(got, mark); width >= 200 && (n != 1 || strings.Count(got, "\n") != len(rows)) {
			t.Errorf("what fits has a line of its own at %d columns:\n%s", width, got)
		}
	}
}

// TestNamesAreWholeOnAPipe holds that what the next command takes is never cut where nobody looks, and that one long name leaves the rows of others as
// they are.
func TestNamesAreWholeOnAPipe(t *testing.T) {
	long := strings.Repeat("long_", 51) + "x"
	var out strings.Builder
	e := &env{stdout: &out}
	rows := [][]string{{"AGENT", "STATE", "DESCRIPTION"}, {long, "active", "Says it"}, {"agent_echo", "active", "Repeats what it is told"}}
	if err := e.printRows(rows, nil, 0); err != nil {
		t.Fatal(err)
	}
	list := newList(&out, "CONTEXT", "TITLE")
	list.row(long, "demo")
	if err := list.flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n" + long + "  active  Says it\n", "active  Repeats what it is told\n", "\n" + long + "  demo\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

// screen returns what is printed on a terminal of some columns.
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
	const end = "<end>" // what was printed may come in pieces
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
	out = strings.ReplaceAll(strings.TrimSuffix(out, end), "\r", "")
	for line := range strings.Lines(out) {
		if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > int(columns) {
			t.Errorf("%d columns on %d: %s", w, columns, line)
		}
	}
	return out
}

// TestHistoryKeepsWidth holds that a conversation can be read on a narrow screen: no line is broken by the terminal.
func TestHistoryKeepsWidth(t *testing.T) {
	line := &repl.Line{
		Time: time.Date(2026, 11, 20, 18, 1, 2, 0, time.Local), Kind: repl.LineResult, Who: "agent_ech0 (looks like agent_echo)",
		Text: "to be or not to be\n  that is the question, and nobody answers it",
	}
	for columns, want := range map[uint16]string{
		80: "2026-11-20 18:01:02  ← agent_ech0 (looks like agent_echo)\n" + strings.Repeat(" ", 39) + "to be or not to be\n" +
			strings.Repeat(" ", 39) + "that is the question, and nobody answers\n" + strings.Repeat(" ", 39) + "it\n",
		40: "2026-11-20 18:01:02 ← agent_ech0 (looks\nlike agent_echo)\n  to be or not to be\n  that is the question, and nobody\n  answers it\n",
		90: "2026-11-20 18:01:02  ← agent_ech0 (looks like agent_echo)\n" + strings.Repeat(" ", 39) + "to be or not to be\n" + strings.Repeat(" ", 39) +
			"  that is the question, and nobody answers it\n",
	} {
		got := screen(t, columns, func(tty *os.File) { (&env{stdout: tty}).printLine(line) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("on %d columns (-want +got):\n%s", columns, diff)
		}
	}
}

// TestListKeepsWidth holds that the rows of a list are a line of the terminal each, and that what other commands take is whole.
func TestListKeepsWidth(t *testing.T) {
	const id = "5f9d1f2e-6d3c-4a57-9c0e-0d9a3f5b7c11"
	out := screen(t, 80, func(tty *os.File) {
		list := newList(tty, "CONTEXT", "UPDATED", "ENTRIES", "TOKENS", "COST", "TITLE")
		list.row(id, "2026-11-22", "1234", "123456", "0.1234", strings.Repeat("a long title ", 9))
		if err := list.flush(); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(out, "\n"+id+" ") {
		t.Errorf("the id is cut:\n%s", out)
	}
	if w := screenWidth(&strings.Builder{}); w != 0 {
		t.Errorf("what is no terminal has a width of %d", w)
	}
}

// TestPagesKeepWidth holds that what is said of replicas, of the store, of the models and of an agent keeps to a narrow terminal, too.
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
				Findings: []storecheck.Finding{{Account: "$G", Stream: "CORTEX_LOG", What: words, Subjects: []string{"cortex.v1.timer._.cortex.a-conversation"}}},
			})
		},
		"models": func(e *env) error {
			c := e.newLLMList()
			c.SetArgs(nil)
			return c.Execute()
		},
		"agent": func(e *env) error {
			_, err := fmt.Fprint(e.stdout, agentPage(record, "", now, screenWidth(e.stdout)))
			return err
		},
		"more": func(e *env) error {
			return e.printRows([][]string{{"AGENT", "STATE"}, {"agent_echo", "active"}}, nil, 12345)
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

// TestTextKeepsWidth holds that a line beside a list is broken on a terminal, and whole elsewhere.
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
