package repl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// TestThemes checks the colours of each theme, and the default.
func TestThemes(t *testing.T) {
	for theme, want := range map[string]string{
		ThemeDark: "\x1b[33mw\x1b[0m \x1b[1;36mc\x1b[0m \x1b[2md\x1b[0m", ThemeLight: "\x1b[35mw\x1b[0m \x1b[1;34mc\x1b[0m \x1b[2md\x1b[0m", ThemePlain: "w \x1b[1mc\x1b[0m \x1b[2md\x1b[0m",
	} {
		s := themed(theme)
		if got := s.yellow("w") + " " + s.paint("1;36", "c") + " " + s.dim("d"); got != want {
			t.Errorf("%s: %q, want %q", theme, got, want)
		}
	}
	for said, want := range map[string]style{"": ThemeDark, "15;0": ThemeDark, "0;15": ThemeLight, "0;default;15": ThemeLight, "0;7": ThemeLight, "nonsense": ThemeDark} {
		t.Setenv("COLORFGBG", said)
		if got := themed(ThemeAuto); got != want {
			t.Errorf("a terminal that says %q gets %s, want %s", said, got, want)
		}
	}
}

// TestChatThemes changes the colours of a chat.
func TestChatThemes(t *testing.T) {
	t.Parallel()
	term := open(t, 80, "REPL_TEST_THEME=plain")
	term.keys("/theme\r")
	term.shows("the theme is plain; /theme auto, dark, light or plain changes it")
	term.keys("/nonsense\r")
	term.shows("no command /nonsense")
	if out := term.output(); strings.Contains(out, "\x1b[31m") {
		t.Errorf("plain has colours: %q", out)
	}
	term.keys("/theme light\r")
	term.shows("the theme of this chat is light now; `theme: light` in the config file keeps it")
	term.keys("/theme pink\r")
	term.shows("no theme pink; there are auto, dark, light, plain")
	if out := term.output(); !strings.Contains(out, "\x1b[31merror: \x1b[0m") {
		t.Errorf("light has no red: %q", out)
	}
	dull := open(t, 80, "NO_COLOR=1")
	dull.keys("/theme light\r")
	dull.shows("there are no colours here")
}

// TestHelpIsWhole checks that the help fits a narrow window.
func TestHelpIsWhole(t *testing.T) {
	tb := table.Table{Columns: make([]table.Column, 2), Wrap: true}
	for _, cmd := range commands() {
		tb.Row(strings.TrimSpace(cmd.name+" "+cmd.args), cmd.help)
	}
	if text := tb.Render(40, nil); strings.Contains(text, "…") {
		t.Errorf("something is cut off:\n%s", text)
	}
}

// TestChatBreaksBetweenWords checks that no word is cut or broken in a narrow window.
func TestChatBreaksBetweenWords(t *testing.T) {
	t.Parallel()
	for _, cols := range []int{40, 60, 80, 120} {
		term := open(t, cols, "REPL_TEST_DECIDES=deciding offline by words; for a language model: --llm … (cortex llm list)")
		one := func() string { return strings.Join(strings.Fields(term.text()), " ") }
		wants := func(text string) {
			t.Helper()
			term.wait(text, func(string) bool { return strings.Contains(one(), text) })
		}
		wants("cortex 1.2.3 in this process deciding offline by words; for a language model: --llm … (cortex llm list) 1 agent online: agent_clock /help for help, Ctrl-D to leave")
		term.order(order{Do: "join", ID: "agent_long", Text: "Reads everything that was ever written about anything and tells you what it is about"})
		wants("agent_long joined (Reads everything that was ever written about anything and tells you what it is about)")
		term.say("two things")
		term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "what time is it in Tokyo and in every other place"})
		term.order(order{Do: "task", ID: "t2", Agent: "agent_long", Text: "what is everything about and why is that so"})
		both := regexp.MustCompile(`(?m)^· agent_clock.*\n· agent_long.* s$`)
		term.wait("both tasks", both.MatchString)
		for line := range strings.SplitSeq(both.FindString(term.text()), "\n") {
			said := regexp.MustCompile(`^· \w+  (.*?)…?  \S+ s$`).FindStringSubmatch(line)
			if said == nil || !strings.Contains(" what time is it in Tokyo and in every other place what is everything about and why is that so ", " "+said[1]+" ") {
				t.Errorf("in %d columns a task is %q, cut in a word", cols, line)
			}
		}
		term.keys("\x04")
		wants("(Ctrl-C cancels what is running; to leave, press Ctrl-D when it is done)")
		term.order(order{Do: "answer", Text: "Done."})
		term.prompts("")
		term.keys("/attach terminal_test.go\r")
		wants("it goes with your next message; /attach none takes it back")
		term.keys("/nonsense\r")
		wants("error: no command /nonsense; /help lists them (a message may begin with a space)")
	}
}
