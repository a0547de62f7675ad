package repl

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "a\tb\nc é 日本 👩‍💻", "a\tb\nc é 日本 👩‍💻"},
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"title", "\x1b]0;owned\x07x", "x"},
		{"title ended by ST", "\x1b]0;owned\x1b\\x", "x"},
		{"clipboard", "\x1b]52;c;aGk=\x07x", "x"},
		{"DCS", "\x1bPq#0\x1b\\x", "x"},
		{"C1 CSI", "\u009b2Jx", "x"},
		{"C1 OSC", "\u009d0;t\u009cx", "x"},
		{"two characters", "\x1bcx\x1b(Bx", "xx"},
		{"sequence in a sequence", "\x1b[3\x1b[1mx", "x"},
		{"string cut by a sequence", "\x1b]0;t\x1b[1mx", "x"},
		{"unfinished string loses a line", "\x1b]0;t\nnext", "\nnext"},
		{"broken sequence", "\x1b[1éx", "éx"},
		{"control characters", "a\rb\bc\x00d\x7fe", "abcde"},
		{"bidirectional marks", "a\u202eb\u2066c\u200fd", "abcd"},
		{"hidden text", "a\u200bb\U000e0041\U000e0042c\ufeff", "abc"},
		{"noncharacters", "a\ufdd0b\ufdd2c\uffff", "abc"},
		{"invalid UTF-8", "a\xffb\xe2\x82", "a\ufffdb\ufffd\ufffd"},
		{"end within a sequence", "x\x1b[1", "x"},
		{"endless parameters", "\x1b[" + strings.Repeat("1", 100) + "mx", strings.Repeat("1", 37) + "mx"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Sanitize(tc.in); got != tc.want {
				t.Errorf("Sanitize(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestSanitizeEndlessString(t *testing.T) {
	in := "\x1b]" + strings.Repeat("x", 10_000)
	if got := Sanitize(in); len(got) < 5000 || strings.Trim(got, "x") != "" {
		t.Errorf("Sanitize of an endless string kept %d bytes, want what is behind its longest length", len(got))
	}
}

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31mred", "\x1b]0;t\x07x", "a\xe2\x82\xacb", "\u009b1m", "\x1b\x1b]\x1b\\x", "\x1bP\n\xff"} {
		f.Add(s, uint(3), uint(5))
	}
	f.Fuzz(func(t *testing.T, s string, i, j uint) {
		whole := Sanitize(s)
		if !utf8.ValidString(whole) {
			t.Errorf("Sanitize(%q) = %q is not UTF-8", s, whole)
		}
		for _, r := range whole {
			if !visible(r) {
				t.Errorf("Sanitize(%q) keeps %U", s, r)
			}
		}
		if again := Sanitize(whole); again != whole {
			t.Errorf("Sanitize(%q) = %q, want it unchanged", whole, again)
		}
		a, b := int(i%uint(len(s)+1)), int(j%uint(len(s)+1))
		a, b = min(a, b), max(a, b)
		var z Sanitizer
		if pieces := z.Clean(s[:a]) + z.Clean(s[a:b]) + z.Clean(s[b:]) + z.Flush(); pieces != whole {
			t.Errorf("%q in pieces = %q, whole = %q", s, pieces, whole)
		}
	})
}
