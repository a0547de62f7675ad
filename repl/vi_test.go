package repl

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestViKeys checks the keys that the library gets in vi mode.
func TestViKeys(t *testing.T) {
	esc := string(escapeMark)
	for name, tc := range map[string]struct {
		in   []string
		want string
	}{
		"text":                       {[]string{"rdcx", "\x1b[A", "\r"}, "rdcx\x1b[A\r"},
		"escape":                     {[]string{"ab", "\x1b", "0x\r"}, "ab" + esc + "0x\r"},
		"escape and a key at once":   {[]string{"ab\x1b0x\r"}, "ab" + esc + "0x\r"},
		"escape twice":               {[]string{"ab\x1b\x1bh\r"}, "ab" + esc + "h\r"},
		"arrows among commands":      {[]string{"ab\x1b\x1b[D\x1bOC\x1b[1~\x1b[F\r"}, "ab" + esc + "hl0$\r"},
		"commands whole":             {[]string{"ab\x1bd", "w", "r", "zcwx\r"}, "ab" + esc + "dw" + string(replaceMark) + "zcwx\r"},
		"a command that is given up": {[]string{"ab\x1bd\x1bw\r"}, "ab" + esc + "w\r"},
		"what ends a line":           {[]string{"ab\x1bd\nr\r"}, "ab" + esc + "\rr\r"},
		"text again behind a line":   {[]string{"\x1bx\rd\x1bAd\r"}, esc + "x\rd" + esc + "Ad\r"},
		"leaving among commands":     {[]string{"\x1b\x04"}, esc + "i\x04"},
		"to the end":                 {[]string{"ab\x1bDCx\r"}, "ab" + esc + toEnd + esc + toEnd + "x\r"},
		"a paste among commands":     {[]string{"ab\x1b\x1b[200~dd\x1b[201~d\r"}, "ab" + esc + "iddd\r"},
		"Tab among commands":         {[]string{"ab\x1b\ti\t\r"}, "ab" + esc + "i\t\r"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeyboard(typing(tc.in...), func() bool { return true })
			defer k.Close()
			k.isVi.Store(true)
			b, err := io.ReadAll(k)
			if string(b) != tc.want || err != nil {
				t.Errorf("keys %q = %q, %v, want %q", tc.in, b, err, tc.want)
			}
		})
	}
}

// TestChatViKeys types in vi mode, with notices in between, and switches back.
func TestChatViKeys(t *testing.T) {
	t.Parallel()
	term := open(t, 80, "REPL_TEST_KEYS=vi")
	say := func(keys, want string) {
		t.Helper()
		if got := term.say(keys).Text; got != want {
			t.Errorf("keys %q say %q, want %q", keys, got, want)
		}
		term.order(order{Do: "answer", Text: "ok"})
		term.wait("the next prompt", func(s string) bool { return strings.HasSuffix(s, "> "+want+"\nok\n>") })
	}
	say("hello world", "hello world")
	say("hello world\x1b0cwbye\x1bAs", "bye worlds")
	say("\x1b[Ax", "bye worldsx")
	say("one two\x1b\x1b[H\x1b[CxxiX", "oX two")
	say("abc\x1bkAX", "oX twoX")
	term.keys("keep this\x1bd") // an incomplete command
	term.order(order{Do: "join", ID: "agent_echo", Text: "Echoes back."})
	term.shows("agent_echo joined (Echoes back)")
	term.prompts("keep this")
	if strings.Contains(term.output(), "\a") {
		t.Error("news rang the bell")
	}
	if got := term.say("h").Text; got != "keep thi" {
		t.Errorf("half a command, news and the other half say %q", got)
	}
	term.order(order{Do: "answer", Text: "ok"})
	term.shows("> keep thi\nok\n>")
	term.keys("/vi\r")
	term.shows("vi keys are on; /vi off ends that in this chat")
	term.keys("/vi off\r")
	term.shows("vi keys are off in this chat")
	say("abc\x1bbX", "Xabc") // Alt-B
	term.keys("/vi sometimes\r")
	term.shows("/vi: sometimes: it is on or off")
	term.keys("/vi on\r")
	term.shows("vi keys are on in this chat")
	say("abc\x1b0iX", "Xabc")
	term.keys("\x1b\x04")
	if code := term.exits(); code != 0 {
		t.Errorf("exit status after Escape and Ctrl-D = %d, want 0", code)
	}
}

// TestChatEditor changes lines in an editor: with keys, with /edit, and when there is no editor or it fails.
func TestChatEditor(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "my editor")
	const program = "#!/bin/sh\n" + `echo "EDITING with $1"
if grep -q fail "$2"; then exit 3; fi
grep -q wait "$2" && read -r line
{ echo "changed:"; cat "$2"; } >"$2.new"
mv "$2.new" "$2"
`
	if err := os.WriteFile(script, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	term := open(t, 80, "VISUAL=", "EDITOR='"+script+"' -n")
	term.keys("hello\x18\x05")
	term.shows("EDITING with -n")
	term.prompts("changed:↵hello")
	if got := term.say("!").Text; got != "changed:\nhello!" {
		t.Errorf("it says %q", got)
	}
	term.order(order{Do: "answer", Text: "ok"})
	term.shows("hello!\nok\n>")
	term.keys("/edit\r") // several lines
	term.prompts("changed:↵changed:↵hello!")
	term.keys("\x15")
	// Notices wait until the editor has ended.
	term.keys("wait\x18\x05")
	term.wait("the editor", func(s string) bool { return strings.Count(s, "EDITING") == 3 })
	term.order(order{Do: "join", ID: "agent_echo", Text: "Echoes back."})
	term.keys("\r")
	term.prompts("changed:↵wait")
	term.shows("agent_echo joined (Echoes back)\n> changed:↵wait")
	term.keys("\x15fail\x18\x05")
	term.says(": exit status 3: the")
	term.prompts("fail")
	term.keys("\x15\x18x") // Ctrl-X alone does nothing
	term.prompts("x")

	none := open(t, 80, "VISUAL=", "EDITOR=")
	none.keys("hello\x18\x05")
	none.shows("error: no editor is set: EDITOR names one, as in EDITOR=nano")
	none.prompts("hello")
	vi := open(t, 80, "REPL_TEST_KEYS=vi", "VISUAL='"+script+"' -v")
	vi.keys("hello\x1bv")
	vi.shows("EDITING with -v")
	vi.prompts("changed:↵hello")
}

// TestKeysWithNothingToDo types keys where the library would panic, or would at the next key: Ctrl-T in a line of one letter, and in vi mode e at the
// last letter and r behind it.
func TestKeysWithNothingToDo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mode, keys, want string }{
		{"emacs", "a\x14b", "ab"},
		{"emacs", "a\x14\x7fb", "b"},
		{"emacs", "a\x01\x14\x14c", "ca"},
		{"emacs", "ab\x14c", "bac"},
		{"vi", "ab\x1bheeAx", "abx"},
		{"vi", "ab cd\x1b0eix", "axb cd"},
		{"vi", "ab\x1brzAc", "abc"},
		{"vi", "ab\x1b0rzAc", "zbc"},
		{"vi", "ab\x1bddic\x14d", "cd"},
	} {
		t.Run(tc.mode+" "+tc.keys, func(t *testing.T) {
			t.Parallel()
			term := open(t, 80, "REPL_TEST_KEYS="+tc.mode)
			if got := term.say(tc.keys).Text; got != tc.want {
				t.Errorf("keys %q say %q, want %q", tc.keys, got, tc.want)
			}
			term.order(order{Do: "answer", Text: "ok"})
			term.wait("the next prompt", func(s string) bool { return strings.HasSuffix(s, "ok\n>") })
		})
	}
}
