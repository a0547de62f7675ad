package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// onScreen returns the output on a terminal with this many columns, and fails the test for a line that is wider.
func onScreen(t *testing.T, columns uint16, print func(tty *os.File)) string {
	t.Helper()
	out := printed(t, columns, print)
	for line := range strings.Lines(out) {
		if w := table.Width(strings.TrimSuffix(line, "\n")); w > int(columns) {
			t.Errorf("%d columns on %d: %s", w, columns, line)
		}
	}
	return out
}

// printed returns the output on a terminal with this many columns, with the line ends that the program made.
func printed(t *testing.T, columns uint16, print func(tty *os.File)) string {
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
	return regexp.MustCompile(`\r|\x1b\[\d*m`).ReplaceAllString(strings.TrimSuffix(out, end), "")
}

// TestCommandsToCopyStayWhole checks that a command that is shown to be copied is one command for a shell, however narrow the terminal.
func TestCommandsToCopyStayWhole(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"auth", "init", dir}, "\n    cortex chat --creds " + auth.People(dir, "") + "\n"},
		{[]string{"auth", "add", "agent", "weather", "--auth", dir}, "\n    cortex agent exec --creds " + auth.AgentFile(dir, "", "weather") + " --card FILE -- PROGRAM\n"},
		{[]string{"ask", "-40 degrees Celsius in Fahrenheit"}, "\nbegins like a flag: put -- before it:\ncortex ask -- '-40 degrees Celsius in Fahrenheit'\n"},
		{[]string{"ask"}, "cortex: what?\ncortex ask 'what time is it in Tokyo?'\n"},
		{[]string{"auth", "--help"}, "`cortex auth COMMAND --help` tells more of a\ncommand.\n"},
		{[]string{"history", "--help"}, "\n  cortex conversations history demo --json\n"},
	} {
		out := printed(t, 45, func(tty *os.File) { (&Program{}).Run(t.Context(), test.args, strings.NewReader(""), tty, tty) })
		out = regexp.MustCompile(` \\\n +`).ReplaceAllString(out, " ") // as a shell does
		if !strings.Contains(out, test.want) {
			t.Errorf("cortex %s does not print %q, but:\n%s", strings.Join(test.args, " "), test.want, out)
		}
	}
}

// TestHelpIsLaidOut checks that lists of a help have hanging indents, that lines break before a path, and that what a flag takes is named once.
func TestHelpIsLaidOut(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"serve", " with a card at\n.well-known/agent-card.json "},
		{"serve", " --oidc-operator CLAIM=VALUE   who is an operator"},
		{"completion bash", "\nLinux:\n"},
	} {
		out := printed(t, 80, func(tty *os.File) {
			(&Program{}).Run(t.Context(), append(strings.Fields(test.args), "--help"), strings.NewReader(""), tty, tty)
		})
		if !strings.Contains(out, test.want) {
			t.Errorf("cortex %s --help does not print %q, but:\n%s", test.args, test.want, out)
		}
	}
	const line, want = "    rtfs   Agents of RTFS register with Cortex", "    rtfs   Agents of RTFS\n           register with Cortex"
	if got := wrapHelp(line, 33); got != want {
		t.Errorf("wrapHelp(%q, 33) =\n%s\nwant\n%s", line, got, want)
	}
}

// TestHelpFitsNarrowScreens checks that a help has no line that a narrow terminal breaks within a word, but for words that are longer than it.
func TestHelpFitsNarrowScreens(t *testing.T) {
	const width = 40
	for _, args := range []string{"", "ask", "chat", "agent exec", "auth add", "help settings"} {
		out := printed(t, width, func(tty *os.File) {
			(&Program{}).Run(t.Context(), append(strings.Fields(args), "--help"), strings.NewReader(""), tty, tty)
		})
		if !strings.Contains(out, "--help") {
			t.Errorf("cortex %s --help prints:\n%s", args, out)
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(strings.TrimSuffix(line, ` \`)), " ") {
				t.Errorf("cortex %s --help: a line of more than %d columns:\n%s", args, width, line)
			}
		}
	}
}

// TestSentencesAreWrapped checks that no sentence is printed without regard to the width of the terminal, which would break it within a word.
func TestSentencesAreWrapped(t *testing.T) {
	apart := []string{ // why it is printed as it is
		"To log in at %s, open",               // an address to be copied
		"nothing was started; to start one: ", // a command to be copied
		"kept in %s",                          // a path to be copied
		"repaired conversation %s",            // a path to be copied
		"set aside %s",                        // a path to be copied
		"of %d killed",                        // a line that is written over
		"--seed %d does it again",             // a path to be copied
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile(`Fprint\w*\((?:e\.)?std(?:err|out), "([^"]{25,})"`)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range sentence.FindAllStringSubmatch(string(b), -1) {
			if !strings.HasSuffix(file, "_test.go") && !slices.ContainsFunc(apart, func(s string) bool { return strings.Contains(said[1], s) }) {
				t.Errorf("%s: %q is not printed by say or tell", file, said[1])
			}
		}
	}
}

// TestSettingsOnNarrowScreens checks that values that a line has no room for stay whole, below it.
func TestSettingsOnNarrowScreens(t *testing.T) {
	list := []settingJSON{{"data", "/home/ada/.local/state/cortex", "default"}, {"llm", "near", "/home/ada/.config/cortex/config.yaml"}}
	for width, want := range map[int]string{
		80: "SETTING  FROM                                  VALUE\n" +
			"data     default                               /home/ada/.local/state/cortex\n" +
			"llm      /home/ada/.config/cortex/config.yaml  near\n",
		50: "SETTING  FROM\n    VALUE\n" +
			"data     default\n    /home/ada/.local/state/cortex\n" +
			"llm      /home/ada/.config/cortex/config.yaml\n    near\n",
	} {
		if diff := cmp.Diff(want, settingsText(list, width)); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}

// TestHistoryKeepsWidth checks that a conversation is readable on a narrow terminal: no line is wrapped by the terminal.
func TestHistoryKeepsWidth(t *testing.T) {
	line := &client.Line{
		Time: time.Date(2026, 11, 20, 18, 1, 2, 0, time.Local), Kind: client.LineResult, Who: "agent_ech0 (looks like agent_echo)",
		Text: "to be or not to be\n  that is the question, and nobody answers it",
	}
	for columns, want := range map[uint16]string{
		80: "2026-11-20 18:01:02  ← agent_ech0 (looks like agent_echo)\n" + strings.Repeat(" ", 39) + "to be or not to be\n" +
			strings.Repeat(" ", 41) + "that is the question, and nobody\n" + strings.Repeat(" ", 41) + "answers it\n",
		40: "2026-11-20 18:01:02  ← agent_ech0 (looks\nlike agent_echo)\n  to be or not to be\n    that is the question, and nobody\n    answers it\n",
		90: "2026-11-20 18:01:02  ← agent_ech0 (looks like agent_echo)\n" + strings.Repeat(" ", 39) + "to be or not to be\n" + strings.Repeat(" ", 39) +
			"  that is the question, and nobody answers it\n",
	} {
		got := onScreen(t, columns, func(tty *os.File) { (&env{stdout: tty}).printLine(line) })
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
			c.SetArgs([]string{}) // not those of this process
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
				out := onScreen(t, columns, func(tty *os.File) {
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
	if got := onScreen(t, 40, func(tty *os.File) { screen.Print(tty, "%s", text) }); got != want {
		t.Errorf("printText(%q) = %q on 40 columns, want %q", text, got, want)
	}
	var b strings.Builder
	if screen.Print(&b, "%s", text); b.String() != text+"\n" {
		t.Errorf("printText(%q) = %q", text, b.String())
	}
}
