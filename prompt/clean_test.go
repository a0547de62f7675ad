package prompt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/prompt"
)

func TestClean(t *testing.T) {
	for _, c := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"plain", "Echo Messages", 64, "Echo Messages"},
		{"white space", "  a\r\n\tb \u2028c\u00a0\u3000d\u0085e\n", 64, "a b c d e"},
		{"control", "a\x00b\x07c\x7fd\u0080e", 64, "abcde"},
		{"color", "\x1b[1;31mred\x1b[0m", 64, "red"},
		{"c1 color", "\u009b31mred\u009bm", 64, "red"},
		{"title and clipboard", "\x1b]0;own\aa\x1b]52;c;ZWNobw==\x1b\\b\u009d0;x\u009cc", 64, "abc"},
		{"charset and reset", "\x1b(Ba\x1bcb", 64, "ab"},
		{"device control", "\x1bPq#0\x1b\\x", 64, "x"},
		{"escape without end", "a\x1b]no end, a\x1b[", 64, "a]no end, a["[:1] + "no end, a"},
		{"escape alone", "a\x1b", 64, "a"},
		{"split escape", "a\x1b\u200b[31mb", 64, "a[31mb"},
		{"bidi", "abc\u202etxt.exe\u2066\u2069\u200e\u061c", 64, "abctxt.exe"},
		{"zero width", "ig\u200bno\u200cre\u200d\u2060\ufeff\u00ad me", 64, "ignore me"},
		{"tags and selectors", "a\U000e0041\U000e007f\ufe0f\U000e0100b\u115f\u3164\u2800c\ue000\uffff", 64, "abc"},
		{"invalid", "a\xffb\xc3", 64, "a\ufffdb\ufffd"},
		{"other scripts", "日本語 ñ 🙂 ع", 64, "日本語 ñ 🙂 ع"},
		{"exact", "日本語", 3, "日本語"},
		{"cut", "日本語です", 3, "日本…"},
		{"cut at space", "ab cd", 4, "ab…"},
		{"nothing", "", 5, ""},
		{"no room", "abc", 0, "…"},
		{"long", strings.Repeat("x", 1<<20), 5, "xxxx…"},
		{"hidden before", strings.Repeat("\u200b", 1<<20) + "x", 5, "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := prompt.Clean(c.in, c.limit); got != c.want {
				t.Errorf("Clean(%.60q, %d) = %q, want %q", c.in, c.limit, got, c.want)
			}
		})
	}
}

func TestCleanText(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"a  b\n\n\tc", 99, "a  b\n\n\tc"},
		{"a\r\nb\rc\u2028d\ve", 99, "a\nb\nc\nd\ne"},
		{"\x1b[2Ja\u202eb\x00", 99, "ab"},
		{"aé", 2, "a\n[… 2 more bytes are cut off]"},
		{"aé", 3, "aé"},
		{"a\xff", 9, "a\ufffd"},
	} {
		if got := prompt.CleanText(c.in, c.limit); got != c.want {
			t.Errorf("CleanText(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// FuzzClean checks that many unterminated escape sequences do not make cleaning slow, and that the result cannot control a terminal.
func FuzzClean(f *testing.F) {
	f.Add(strings.Repeat("\x1b]", 20))
	f.Add("a\x1b[31mb\u009dc\u202e\r\n\U000e0041\xff")
	f.Fuzz(func(t *testing.T, in string) {
		line, text := prompt.Clean(in, 40), prompt.CleanText(in, 1000)
		if n := utf8.RuneCountInString(line); n > 40 {
			t.Errorf("Clean(%q, 40) has %d characters", in, n)
		}
		for _, s := range []string{line, prompt.Shown(in, 40), strings.NewReplacer("\n", "", "\t", "").Replace(text)} {
			if r := hidden(s); r != 0 {
				t.Errorf("clean %q = %q, holds %U", in, s, r)
			}
			if !utf8.ValidString(s) {
				t.Errorf("clean %q = %q, not UTF-8", in, s)
			}
		}
		if again := prompt.Clean(line, 40); again != line {
			t.Errorf("Clean(%q) = %q, Clean of that is %q", in, line, again)
		}
	})
}

// TestShown checks that a person who consents to a text sees all of it.
func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"pay  Bob\n 5":                     "pay Bob 5",
		"Bob\x1b]Eve\a":                    `Bob\u001b]Eve\u0007`,
		"Bob\u200b\u202e\U000e0041\ufe0f":  `Bob\u200b\u202e\udb40\udc41\ufe0f`,
		"\xff":                             "\ufffd",
		"0123456789":                       "0123456789",
		"0123456789a":                      "012345678…",
		"a" + strings.Repeat("\u200b", 10): "a" + strings.Repeat(`\u200b`, 8) + "…",
		"a" + strings.Repeat(" ", 100<<10) + "beta": "a…",
	} {
		if got := prompt.Shown(in, 10); got != want {
			t.Errorf("Shown(%.40q, 10) = %q, want %q", in, got, want)
		}
	}
}

// hidden returns a character of s that must not be in a prompt, or 0. It is independent of the code under test.
func hidden(s string) rune {
	for _, r := range s {
		switch {
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0xad, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
			r == 0xfeff, r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff:
			return r
		}
	}
	return 0
}
