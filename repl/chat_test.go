package repl

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

func TestChat(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	for _, want := range []string{"cortex 1.2.3", "in this process", "1 agent online: agent_clock", "/help for help, Ctrl-D to leave"} {
		term.shows(want)
	}

	h := term.say("hello")
	if h.Text != "hello" || h.Context != "ctx-1" {
		t.Errorf("message = %+v, want hello in ctx-1", h)
	}
	cooked := freshModes(t)
	term.order(order{Do: "delta", ID: "a", Text: "Hello "})
	term.shows("\nHello")
	term.order(order{Do: "delta", ID: "a", Text: "World"})
	term.shows("\nHello World")
	term.order(order{Do: "answer", Text: "Hello World!"})
	term.prompts("")
	term.shows("> hello\nHello World!\n>") // once

	// The answer is started again, and the final one differs.
	term.say("again")
	term.order(order{Do: "delta", ID: "a", Text: "I thi"})
	term.order(order{Do: "delta", ID: "b", Text: "No, th"})
	term.order(order{Do: "answer", Text: "Forty-two."})
	term.shows("> again\nI thi\n(starting again)\nNo, th\n(the whole answer:)\nForty-two.\n>")

	// A failure after streamed text is not mistaken for the answer.
	term.say("once more")
	term.order(order{Do: "delta", ID: "c", Text: "Once u"})
	term.order(order{Do: "failure", Text: "The model broke off."})
	term.shows("> once more\nOnce u\nThe model broke off.\n>")

	// The part that was not streamed is added.
	term.say("end")
	term.order(order{Do: "delta", ID: "a", Text: "one\n"})
	term.order(order{Do: "answer", Text: "one\ntwo"})
	term.shows("> end\none\ntwo\n>")

	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status after Ctrl-D = %d, want 0", code)
	}
	if diff := cmp.Diff(fmt.Sprint(cooked), fmt.Sprint(term.modes())); diff != "" {
		t.Errorf("terminal modes after the chat (-want +got):\n%s", diff)
	}
	if out := term.output(); strings.Count(out, pasteOn) != strings.Count(out, pasteOff) {
		t.Errorf("bracketed paste was left on: %q", out)
	}
}

// TestChatRetry checks that a retry is shown in a permanent line, and the task as the other agent's from then on.
func TestChatRetry(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("weather?")
	term.order(order{Do: "task", ID: "t1", Agent: "weather", Text: "the weather in Tokyo"})
	term.order(order{Do: "progress", ID: "t1", Agent: "weather", Text: "looking out"})
	term.shows("· weather  looking out  ")
	term.order(order{Do: "again", ID: "t1", Agent: "weather2", Text: "weather2 instead of weather: no result within 5s", N: 2})
	term.wait("the retry", regexp.MustCompile(`\n↻ weather2 instead of weather: no result within 5s\n· weather2  does not run, waits: the weather in Tokyo  \d+\.\d s$`).MatchString)
	term.order(order{Do: "progress", ID: "t1", Agent: "weather", Text: "too late"})
	term.order(order{Do: "progress", ID: "t1", Agent: "weather2", Text: "asking a friend"})
	term.wait("progress of the other one", regexp.MustCompile(`5s\n· weather2  asking a friend  \d+\.\d s$`).MatchString)
	term.order(order{Do: "completed", ID: "t1"})
	term.order(order{Do: "answer", Text: "Sunny."})
	term.prompts("")
	want := regexp.MustCompile(`> weather\?\n↻ weather2 instead of weather: no result within 5s\n✓ weather2  the weather in Tokyo  \d+\.\d s\nSunny\.\n>$`)
	if got := term.text(); !want.MatchString(got) {
		t.Errorf("in the end the screen is\n%s", got)
	}
}

func TestChatDelegations(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("two things")
	term.order(order{Do: "delta", ID: "a", Text: "One moment."})
	term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "what time is it in Tokyo"})
	term.order(order{Do: "task", ID: "t2", Agent: "agent_slow", Text: strings.Repeat("a very long task ", 20)})
	both := regexp.MustCompile(`> two things\nOne moment\.\n· agent_clock  what time is it in Tokyo  \d+\.\d s\n· agent_slow  does not run, waits: a very long task[^\n]*…  \d+\.\d s$`)
	term.wait("both delegations", both.MatchString)
	term.wait("the clock of a delegation", regexp.MustCompile(`Tokyo  (0\.[3-9]|\d*[1-9]\.\d) s`).MatchString)
	term.order(order{Do: "progress", ID: "t2", Agent: "agent_slow", Text: "half way\x1b[2J"})
	term.shows("· agent_slow  half way  ")

	// An agent joins during the turn: a line above the delegations.
	term.order(order{Do: "join", ID: "agent_echo", Text: "Echoes back."})
	term.wait("the new agent", regexp.MustCompile(`One moment\.\nagent_echo joined \(Echoes back\)\n· agent_clock.*\n· agent_slow[^\n]*$`).MatchString)

	term.order(order{Do: "completed", ID: "t1"})
	term.wait("the finished task", regexp.MustCompile(`\n✓ agent_clock  what time is it in Tokyo  \d+\.\d s\n· agent_slow[^\n]*$`).MatchString)
	term.order(order{Do: "failed", ID: "t2", Text: "the tool crashed\nwith a trace"})
	term.wait("the failed task", regexp.MustCompile(`\n✓ agent_clock[^\n]*\n✗ agent_slow  a very[^\n]*  failed: the tool crashed with a trace(\n\S thinking[^\n]*)?$`).MatchString)
	term.order(order{Do: "answer", Text: "It is noon."})
	term.prompts("")
	for line := range strings.SplitSeq(term.text(), "\n") {
		if strings.Contains(line, "·") {
			t.Errorf("a live line stayed: %q", line)
		}
	}
}

// TestChatAgentText checks that an agent's text is streamed, one agent's at a time, while the others have one line each.
func TestChatAgentText(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("a poem")
	term.order(order{Do: "task", ID: "t1", Agent: "poet", Text: "a poem"})
	term.order(order{Do: "task", ID: "t2", Agent: "critic", Text: "a critique"})
	term.order(order{Do: "text", ID: "t1", Agent: "poet", Text: "Roses are\x1b[2J "})
	term.shows("poet writes:\nRoses are")
	term.order(order{Do: "text", ID: "t2", Agent: "critic", Text: "dull\nvery dull"})
	term.order(order{Do: "text", ID: "t1", Agent: "poet", Text: "red,\nviolets ", N: 1})
	term.shows("poet writes:\nRoses are red,\nviolets")
	term.order(order{Do: "text", ID: "t1", Agent: "poet", Text: "blue.", N: 1})
	term.order(order{Do: "completed", ID: "t1"})
	term.wait("the end of the text", regexp.MustCompile(`writes:\nRoses are red,\nviolets blue\.\n✓ poet  a poem  \d+\.\d s\n· critic  very dull  \d+\.\d s$`).MatchString)
	term.order(order{Do: "text", ID: "t2", Agent: "critic", Text: ", dull", N: 1})
	term.shows("\ncritic writes:\n, dull")
	term.order(order{Do: "completed", ID: "t2"})
	term.order(order{Do: "answer", Text: "There it is."})
	term.prompts("")
	if got := term.text(); !regexp.MustCompile(`, dull\n✓ critic  a critique  \d+\.\d s\nThere it is\.\n>$`).MatchString(got) {
		t.Errorf("in the end the screen is\n%s", got)
	}
}

// TestChatAgentTextIsAnswer checks that an agent's text that is the answer is not shown twice, and that one that was cut or differs is.
func TestChatAgentTextIsAnswer(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	for i, c := range []struct{ streamed, answer, want string }{
		{"Roses are red", "Roses are red", `poet writes:\nRoses are red\n✓ poet  a poem  \d+\.\d s\n>$`},
		{"Roses are red", "Roses are red, violets", `Roses are red\n✓ poet  a poem  \d+\.\d s\nRoses are red, violets\n>$`},
	} {
		id := fmt.Sprint("t", i)
		term.say("a poem")
		term.order(order{Do: "task", ID: id, Agent: "poet", Text: "a poem"})
		term.order(order{Do: "text", ID: id, Agent: "poet", Text: c.streamed})
		term.shows("poet writes:\n" + c.streamed)
		term.order(order{Do: "completed", ID: id})
		term.order(order{Do: "answer", Text: c.answer})
		term.wait("the answer", regexp.MustCompile(c.want).MatchString)
	}
	term.say("fail")
	term.order(order{Do: "task", ID: "t9", Agent: "poet", Text: "fail"})
	term.order(order{Do: "text", ID: "t9", Agent: "poet", Text: "I am out of ink"})
	term.order(order{Do: "failed", ID: "t9", Text: "I am out of ink"})
	term.order(order{Do: "failure", Text: "I am out of ink"})
	term.wait("the failure", regexp.MustCompile(`I am out of ink\n✗ poet  fail  \d+\.\d s  failed\nI am out of ink\n>$`).MatchString)
}

func TestChatNoticesWhileTyping(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.keys("half a sen")
	term.prompts("half a sen")
	term.order(order{Do: "join", ID: "agent_echo", Text: "Echoes back. Always."})
	term.shows("agent_echo joined (Echoes back)\n> half a sen")
	term.order(order{Do: "leave", ID: "agent_echo"})
	term.shows("agent_echo left\n> half a sen")
	term.order(order{Do: "other", ID: "agent_clock", Text: "Another clock"})
	term.shows("warning: two different cards under one id agent_clock")
	term.prompts("half a sen")
	term.keys("tence")
	if h := term.say(""); h.Text != "half a sentence" {
		t.Errorf("message = %q, want the text that was typed around the notices", h.Text)
	}

	// Notices wait while an answer is streamed.
	term.order(order{Do: "delta", ID: "a", Text: "I am "})
	term.shows("I am")
	term.order(order{Do: "join", ID: "agent_x", Text: ""})
	term.order(order{Do: "delta", ID: "a", Text: "here"})
	term.order(order{Do: "answer", Text: "I am here"})
	term.shows("I am here\nagent_x joined\n>")

	term.order(order{Do: "burst", ID: "bulk", N: 12})
	term.wait("the number of new agents", regexp.MustCompile(`12 (more )?agents joined`).MatchString)
	term.prompts("")
	if strings.Contains(term.text(), "bulk_00") {
		t.Error("agents of a burst are announced one by one")
	}
}

// TestChatNoticesRace checks that notices that arrive while a prompt begins, or a line ends, leave no prompt behind and lose nothing.
func TestChatNoticesRace(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	const n = 60
	for i := range n {
		// The notice, the answer and the next prompt race.
		term.keys(fmt.Sprintf("m%d\r", i))
		if h := term.heard(); h.Text != fmt.Sprintf("m%d", i) {
			t.Fatalf("message %d = %q", i, h.Text)
		}
		term.order(order{Do: "join", ID: fmt.Sprintf("agent_%d", i)})
		term.order(order{Do: "answer", Text: fmt.Sprintf("a%d", i)})
	}
	term.shows(fmt.Sprintf("a%d", n-1))
	term.prompts("")
	lines := strings.Split(term.text(), "\n")
	for i, line := range lines[:len(lines)-1] {
		if line == ">" || strings.HasPrefix(line, "> agent") {
			t.Errorf("a prompt was left behind in line %d", i)
		}
	}
}

func TestChatInterrupt(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	said := term.say("long work")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "count"})
	term.shows("· agent_clock  count")
	term.keys("\x03")
	if h := term.heard(); h.Kind != "cancel" || h.Turn == "" || h.Context != said.Context {
		t.Errorf("after Ctrl-C Cortex got %+v, want the turn's cancel", h)
	}
	term.shows("(canceled)")
	term.prompts("")

	term.keys("some text\x03")
	term.shows("> some text^C\n>")
	if strings.Contains(term.text(), "to leave)") {
		t.Error("Ctrl-C with a text hints at leaving")
	}
	term.keys("\x03")
	term.shows("(Ctrl-C again, or Ctrl-D, to leave)\n>")
	term.keys("\x03")
	if code := term.exits(); code != 130 {
		t.Errorf("exit status after two Ctrl-C = %d, want 130", code)
	}
}

// TestChatSignal checks that a signal from another process neither kills the chat at the prompt nor breaks the edited line.
func TestChatSignal(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.keys("abc")
	term.prompts("abc")
	if err := term.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	term.shows("(Ctrl-C again, or Ctrl-D, to leave)")
	term.prompts("abc")
	if h := term.say("def"); h.Text != "abcdef" {
		t.Errorf("message = %q, want abcdef", h.Text)
	}
}

// TestChatTerminated checks that the end of the context ends the chat, during a line or a turn, and restores the terminal.
func TestChatTerminated(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"typing": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			term := open(t, 80)
			term.say("hi")
			cooked := freshModes(t)
			if !busy {
				term.order(order{Do: "answer", Text: "ok"})
				term.shows("ok\n>")
				term.keys("half a sen")
				term.prompts("half a sen")
			}
			if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := term.exits(); code != 143 {
				t.Errorf("exit status = %d, want 143", code)
			}
			if diff := cmp.Diff(fmt.Sprint(cooked), fmt.Sprint(term.modes())); diff != "" {
				t.Errorf("terminal modes after the chat (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChatLines(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "history")
	if err := os.WriteFile(path, []byte("an old one\ntwo\\nlines\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	term := open(t, 80, "REPL_TEST_HISTORY="+path)
	answers := 0
	say := func(what, keys, want string) {
		t.Helper()
		if h := term.say(keys); h.Text != want {
			t.Errorf("%s: message = %q, want %q", what, h.Text, want)
		}
		answers++
		term.order(order{Do: "answer", Text: fmt.Sprintf("ok %d", answers)})
		term.shows(fmt.Sprintf("\nok %d\n>", answers))
	}
	say("arrow up", "\x1b[A", "two\nlines")
	term.shows("> two↵lines")
	say("backslash", "one\\\rtwo", "one\ntwo")
	say("block", "\"\"\"\ra\\\r\r/quit\rb\"\"\"", "a\\\n\n/quit\nb")
	say("recalled block", "\x1b[A", "a\\\n\n/quit\nb")
	say("paste", "see: \x1b[200~x\r\n\ty\x1b[31m\r/quit\r\x1b[201~!", "see: x\n\ty\n/quit!")
	long := strings.Repeat("0123456789\n", 100)
	say("long paste", "about \x1b[200~"+strings.ReplaceAll(long, "\n", "\r")+"\x1b[201~ that", "about "+strings.TrimSuffix(long, "\n")+" that")
	term.shows("> about [paste 1: 100 lines] that")
	say("Delete and Ctrl-Space on an empty line", "\x1b[3~\x00\x1ax", "x")
	say("a space before", " /secret", " /secret")
	say("a path", "/etc/passwd is what?", "/etc/passwd is what?")
	say("wide runes", "日本語 ねこ\x7f\x7fいぬ 🐕", "日本語 いぬ 🐕")
	say("search", "\x12old\r", "an old one")
	term.keys("\x1b[200~abc\r")
	term.keys("def\r\x1b[20")
	say("split paste", "1~", "abc\ndef")
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status = %d, want 0", code)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.HasPrefix(got, "an old one\ntwo\\nlines\none\\ntwo\na\\\\\\n\\n/quit\\nb\n") || strings.Contains(got, "/secret") {
		t.Errorf("history = %q", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("history has mode %v, want 0600", info.Mode())
	}
}

func TestChatCompletion(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "summary.txt"), []byte("sum"), 0o600); err != nil {
		t.Fatal(err)
	}
	term := open(t, 80, "HOME="+home)
	term.order(order{Do: "join", ID: "agent_calc"})
	term.shows("agent_calc joined")
	term.keys("ask @ag\t")
	term.prompts("ask @agent_c") // the common prefix
	term.keys("\t")
	term.shows("@agent_calc   @agent_clock\n> ask @agent_c")
	term.keys("lo\t")
	term.prompts("ask @agent_clock") // followed by a space, which the screen does not show
	term.keys("x\x15/resume \t")
	term.shows("0193b2f0-aaaa-7000-8000-000000000001  what time is it in Tokyo and in Berlin…\nctx-1                                 this\n> /resume")
	term.keys("\x15/conv\t\r")
	term.shows("0193b2f0-aaaa  3 h ago")
	term.prompts("")
	term.keys("/theme li\t")
	term.prompts("/theme light")
	term.keys("\x15/attach testd\tanswer.m\t")
	term.prompts("/attach testdata/answer.md")
	term.keys("\x15/save 1 testdata/answer-4\t")
	term.prompts("/save 1 testdata/answer-40.golden")
	term.keys("\x15/attach ~/su\t")
	term.prompts("/attach ~/summary.txt")
	term.keys("\r")
	term.shows("summary.txt, 3 bytes: it goes with your next message")
	term.keys("/attach\r")
	term.keys("/resume 01\t\r")
	term.shows("you: what time is it?\ncortex: noon\ngoing on with 0193b2f0-aaaa-7000-8000-000000000001\nreply>") // an agent waits for one
	term.keys("never mind\r")
	if h := term.heard(); h.Kind != "cancel" || h.Task != "task-5" {
		t.Errorf("Cortex hears %+v, want the cancellation of the task that waits", h)
	}
	term.prompts("")
	if h := term.say("hi"); h.Context != "0193b2f0-aaaa-7000-8000-000000000001" {
		t.Errorf("after /resume the message went to %s", h.Context)
	}
}

// TestChatGoesOn checks that a chat that resumes a conversation shows its end, which may be a question.
func TestChatGoesOn(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.shows("you: what time is it?\ncortex: noon\n>")
}

func TestChatCommands(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	dir := t.TempDir()
	file := filepath.Join(dir, "talk.md")
	run := func(line string, want ...string) {
		t.Helper()
		term.keys("\x0c" + line + "\r")
		for _, w := range want {
			term.shows(w)
		}
		term.prompts("")
	}
	run("/help", "/export FILE.md      write it all to a new file; /export! replaces one", "Tab completes.")
	run("/agents", "agent_evil", "red alert and more", "in every city of the world, and…")
	run("/why", "respond: because nothing fits")
	run("/prompt foo bar", "PROMPT for foo bar")
	run("/tasks", "… and those of 26 turns before: `cortex conversations history c`\nTASK ", "task-77  agent_clock  working")
	term.order(order{Do: "join", ID: "agent_c1ock"})
	term.shows("agent_c1ock joined")
	run("/tasks", "task-77  agent_clock (looks like agent_c1ock)  working")
	run("/sessions", "(this one) this")
	run("/cancel task-9", "error: /cancel: no open task task-9; /tasks lists them")
	run("/cancel task-7", "asking cortex to cancel task task-77")
	if h := term.heard(); h.Kind != "cancel" || h.Task != "task-77" {
		t.Errorf("after /cancel Cortex got %+v", h)
	}
	run("/cancel", "asking cortex to cancel")
	if h := term.heard(); h.Kind != "cancel" || h.Task != "" || h.Context != "ctx-1" {
		t.Errorf("after /cancel Cortex got %+v", h)
	}
	run("/agnets", "error: no command /agnets; did you mean /agents?")
	run("/h", "error: no command /h; did you mean /help?")
	run("/xyzzy", "error: no command /xyzzy; /help lists them")
	run("/resume nope", "error: /resume: no conversation nope; /conversations lists them")
	run("/export "+file, "(")
	term.keys("\x0c/export " + file + "\r")
	term.says("exists; /export!")
	term.prompts("")
	run("/export! "+file, "(")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Conversation ctx-1\n\n## you, 2026-01-02 03:04:05\n\nwhat time is it?\n\n> **task for agent_clock**, 2026-01-02 03:04:05\n>\n> time\n\n" +
		"> **agent_clock**, 2026-01-02 03:04:05\n>\n> noon\n> sharp\n\n## cortex, 2026-01-02 03:04:05\n\nnoon\n"
	if string(b) != want {
		t.Errorf("export = %q, want %q", b, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("export has mode %v, %v, want 0600", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("export left %v behind", entries)
	}
	run("/new", "a new conversation: ")
	if h := term.say("hi"); h.Context == "ctx-1" || h.Context == "" {
		t.Errorf("after /new the message went to %q", h.Context)
	}
	term.order(order{Do: "answer", Text: "ok"})
	term.prompts("")
	term.keys("/quit\r")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status after /quit = %d, want 0", code)
	}
}

// TestChatFiles checks that attached files go with the next message, once, and that files of an answer can be saved by their numbers, without
// overwriting.
func TestChatFiles(t *testing.T) {
	t.Parallel()
	term, dir := open(t, 100), t.TempDir()
	run := func(line string, want ...string) {
		t.Helper()
		term.keys("\x0c" + line + "\r")
		for _, w := range want {
			term.shows(w)
		}
		term.prompts("")
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var dot bytes.Buffer
	if err := png.Encode(&dot, image.NewGray(image.Rect(0, 0, 7, 5))); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("large"), 100_000)
	run("/attach "+filepath.Join(dir, "none"), "none: there is no such file")
	run("/attach", "error: /attach: nothing is attached; which file? /attach report.pdf")
	run("/attach none", "error: /attach: nothing is attached")
	run("/save 1", "error: /save: no answer has brought a file yet")
	run("/attach "+write("dot.png", dot.Bytes()), "dot.png, ", "it goes with your next message")
	run("/attach "+write("large.txt", large), "large.txt, 500 kB: it goes with your next message")
	run("/attach", "large.txt goes with your next message\n/attach FILE adds one; /attach none takes all back")
	term.say("look")
	term.order(order{Do: "give back", Text: "I see."})
	term.shows("I see.\nfile 1: dot.png, image/png, ")
	term.shows(" bytes, 7x5 (/save 1)\nfile 2: large.txt, text/plain, 500 kB (/save 2)")
	term.prompts("")
	out := filepath.Join(dir, "out.txt")
	run("/save 2 "+out, "wrote ")
	term.keys("\x0c/save 2 " + out + "\r")
	term.says("is there already: nothing is overwritten")
	term.prompts("")
	run("/save 1 "+dir, "dot-2.png")
	run("/save 3", "error: /save: which one? the files are numbered from 1 to 2: /save 1")
	for path, want := range map[string][]byte{out: large, filepath.Join(dir, "dot-2.png"): dot.Bytes(), filepath.Join(dir, "dot.png"): dot.Bytes()} {
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s is %d bytes, %v, want what was brought", path, len(b), err)
		}
	}
	term.say("again") // without the files
	term.order(order{Do: "give back", Text: "Nothing."})
	term.shows("Nothing.\n>")
	term.keys("/quit\r")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status after /quit = %d, want 0", code)
	}
}

// TestChatEscapes checks that no text of a card, an agent or a model controls the terminal, even if it comes in two pieces.
func TestChatEscapes(t *testing.T) {
	t.Parallel()
	term := open(t, 80, "NO_COLOR=1")
	const evil = "\x1b]52;c;c3RvbGVu\x07\x1b[31mred\u202e\u009b2J"
	term.order(order{Do: "join", ID: "agent_evil", Text: evil + " A."})
	term.shows("agent_evil joined (red A)")
	term.say("go")
	term.order(order{Do: "delta", ID: "a", Text: "safe \x1b"})
	term.order(order{Do: "delta", ID: "a", Text: "]52;c;c3Rv"})
	term.order(order{Do: "delta", ID: "a", Text: "bGVu\x07text"})
	term.shows("safe text")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_evil", Text: evil})
	term.order(order{Do: "task", ID: "t2", Agent: "agent_" + evil, Text: "?"})
	term.shows("· agent_red")
	term.order(order{Do: "progress", ID: "t1", Agent: "agent_evil", Text: "still " + evil})
	term.shows("still red")
	term.order(order{Do: "failed", ID: "t1", Text: evil})
	term.shows("failed: red")
	term.order(order{Do: "answer", Text: "done" + evil})
	term.shows("donered")
	term.prompts("")
	out := term.output()
	for _, bad := range []string{"\x1b]", "\u202e", "\u009b", "c3RvbGVu", "\x1b[31m", "\x1b[2m"} { // the last two: no colour
		if strings.Contains(out, bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
}

func TestChatColour(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	if !strings.Contains(term.output(), "\x1b[1mcortex 1.2.3\x1b[0m") {
		t.Errorf("no colour on a terminal: %q", term.output())
	}
}

func TestChatDumb(t *testing.T) {
	t.Parallel()
	term := open(t, 80, "TERM=dumb")
	term.order(order{Do: "join", ID: "agent_echo", Text: "Echoes"})
	term.shows("agent_echo joined (Echoes)\n>")
	term.say("hello")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_clock", Text: "time"})
	term.order(order{Do: "progress", ID: "t1", Agent: "agent_clock", Text: "winding up"})
	term.order(order{Do: "completed", ID: "t1"})
	term.order(order{Do: "answer", Text: "noon"})
	term.wait("a plain turn", regexp.MustCompile(`> hello\n· agent_clock  time  \d+\.\d s\n· agent_clock  winding up  \d+\.\d s\n✓ agent_clock  time  \d+\.\d s\nnoon\n>$`).MatchString)
	term.keys("abc")
	term.prompts("abc")
	term.keys("\x03")
	term.shows("> abc^C\n(Ctrl-C again, or Ctrl-D, to leave)\n>")
	if strings.ContainsRune(term.output(), 0x1b) {
		t.Errorf("escape sequences on a dumb terminal: %q", term.output())
	}
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status = %d, want 0", code)
	}
}

func TestChatNarrow(t *testing.T) {
	t.Parallel()
	term := open(t, 32)
	term.say("go")
	term.order(order{Do: "task", ID: "t1", Agent: "agent_with_a_very_long_name", Text: "日本語日本語日本語日本語日本語日本語"})
	term.order(order{Do: "task", ID: "t2", Agent: "agent_clock", Text: "time"})
	two := regexp.MustCompile(`> go\n· [^\n]* s\n· agent_clo[^\n]* s$`)
	term.wait("two live lines", two.MatchString)
	term.wait("time to pass", regexp.MustCompile(`(0\.[5-9]|\d*[1-9]\.\d) s$`).MatchString)
	if !two.MatchString(term.text()) {
		t.Errorf("live lines wrapped:\n%s", term.text())
	}
	term.order(order{Do: "answer", Text: "ok"})
	term.prompts("")
	term.keys("/agents\r")
	term.shows("\nagent_evil   stale   red alert…\n")
	term.prompts("")
	term.keys("a text that is wider than the screen is")
	term.order(order{Do: "join", ID: "agent_echo", Text: "Echoes back whatever it is told"})
	term.shows("agent_echo joined (Echoes")
	term.wait("the typed text", func(s string) bool {
		return strings.HasSuffix(s, "\n> a text that is wider than the\nscreen is") || strings.HasSuffix(s, "\n> a text that is wider than the\n screen is")
	})
	for line := range strings.SplitSeq(term.text(), "\n") {
		if table.Width(line) > 32 {
			t.Errorf("line %q is wider than the screen", line)
		}
	}
}

// TestChatMarkdown checks that an answer is laid out as it is written: complete blocks stay, the last one changes.
func TestChatMarkdown(t *testing.T) {
	t.Parallel()
	term := open(t, 40)
	term.say("tell me")
	term.shows(" thinking")
	term.order(order{Do: "delta", ID: "a", Text: "## Head\n\nSome **bo"})
	term.shows("> tell me\nHead\n\nSome **bo")
	text := "## Head\n\nSome **bold** words and more of them, until the line is full.\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"
	term.order(order{Do: "delta", ID: "a", Text: text[len("## Head\n\nSome **bo"):]})
	const shown = "> tell me\nHead\n\nSome bold words and more of them, until\nthe line is full.\n\na  b\n─  ─\n1  2"
	term.shows(shown)
	term.order(order{Do: "answer", Text: text + "\n- [a link](https://a.example/b)\n"})
	term.prompts("")
	term.shows(shown + "\n\n• a link (https://a.example/b)\n>")
	if out := term.output(); !strings.Contains(out, "\x1b[1mbold\x1b[0m") {
		t.Errorf("nothing is bold: %q", out)
	}
}

// TestChatSaysAgain checks /retry, which sends the last message again, and /edit, which lets the user change it first.
func TestChatSaysAgain(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	say := func(keys, want string) {
		t.Helper()
		if h := term.say(keys); h.Text != want {
			t.Errorf("%q said %q, want %q", keys, h.Text, want)
		}
		term.order(order{Do: "answer", Text: "ok"})
		term.prompts("")
	}
	say("/retry", "what time is it?") // of the resumed conversation
	say("one\\\rtwo", "one\ntwo")
	say("/retry", "one\ntwo")
	term.keys("/edit\r")
	term.prompts("one↵two")
	say("!", "one\ntwo!")
	term.keys("/new\r")
	term.prompts("")
	term.keys("/edit\r")
	term.shows("error: /edit: nothing was said in this conversation yet\n>")

	term.keys("/model\r")
	term.shows("error: /model: not available here\n>")
	term.keys("/verbose\r")
	term.shows("answers are followed by how they came about; /verbose ends that\n>")
	term.say("why?")
	term.order(order{Do: "answer", Text: "So."})
	term.shows("> why?\nSo.\nrespond: because nothing fits\n>")
}

// TestChatLeaves checks the ways to leave.
func TestChatLeaves(t *testing.T) {
	t.Parallel()
	for _, word := range leaving {
		term := open(t, 80)
		if h := term.say(" " + word); h.Text != " "+word {
			t.Errorf("with a space before it, %q said %q", word, h.Text)
		}
		term.order(order{Do: "answer", Text: "ok"})
		term.prompts("")
		term.keys(word + "\r")
		if code := term.exits(); code != 0 {
			t.Errorf("exit status after %q = %d, want 0", word, code)
		}
	}
}

// TestChatTypesAhead checks that keys typed during a turn are visible, and begin the next line; Ctrl-D shows a hint. The keys leave no trace in the
// answer.
func TestChatTypesAhead(t *testing.T) {
	t.Parallel()
	term := open(t, 80)
	term.say("go")
	term.keys("\x04")
	term.shows("> go\n(Ctrl-C cancels what is running; to leave, press Ctrl-D when it is done)")
	term.keys("what\x7f\x7fy n")
	term.shows(" thinking")
	term.shows("\n> why n")
	term.order(order{Do: "delta", ID: "a", Text: "- one\n- two\n- th"})
	term.shows("\n• one\n• two\n• th\n> why n")
	term.keys("ext?\r")
	term.shows("\n> why next?↵")
	term.order(order{Do: "answer", Text: "- one\n- two\n- three"})
	if h := term.heard(); h.Text != "why next?" {
		t.Errorf("message = %q, want what was typed ahead", h.Text)
	}
	term.shows("Ctrl-D when it is done)\n• one\n• two\n• three\n> why next?\n")
	term.keys("lost\rkept\x03")
	if h := term.heard(); h.Kind != "cancel" {
		t.Errorf("after Ctrl-C Cortex got %+v", h)
	}
	term.shows("(canceled)\n> kept")
	term.keys("\r")
	if h := term.heard(); h.Text != "kept" {
		t.Errorf("after Ctrl-C the message is %q, want the line that was not complete", h.Text)
	}
	term.order(order{Do: "answer", Text: "done"})
	term.prompts("")
	term.keys("\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status = %d, want 0", code)
	}
}
