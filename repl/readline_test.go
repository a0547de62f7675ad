package repl

import (
	"bytes"
	"testing"
)

// TestCursorStandsWhereItIs checks the cursor in lines with wide and zero-width characters, which the library miscounts.
func TestCursorStandsWhereItIs(t *testing.T) {
	for _, tc := range []struct {
		text       string
		pos, width int
		want       string // after the text
	}{
		{"abc", 3, 20, ""},
		{"abc", 1, 20, "\r\x1b[3C"},
		{"日本x", 1, 20, "\r\x1b[4C"},
		{"日本x", 2, 20, "\r\x1b[6C"},
		{"🙂a", 1, 20, "\r\x1b[4C"},
		{"⭐x", 1, 20, "\r\x1b[4C"},
		{"！x", 1, 20, "\r\x1b[4C"},
		{"e\u0301x", 2, 20, "\r\x1b[3C"},
		{"👩\u200d🚀x", 3, 20, "\r\x1b[4C"},
		{"日本語x", 0, 8, "\x1b[1A\r\x1b[2C"},
		{"日本語", 3, 8, " \b"},
		{"日本語", 2, 8, " \b\x1b[1A\r\x1b[6C"},
		{"a日本語", 4, 8, ""}, // a wide character does not wrap in its middle
		{"a日本語", 3, 8, "\x1b[1A\r\x1b[7C"},
	} {
		var screen bytes.Buffer
		v := &valve{w: &screen}
		line := []rune(tc.text)
		shown := painter{&lineEditor{prompt: 2}, func() int { return tc.width }}.Paint(line, tc.pos)
		written := string(shown) + " \b" + "\b\b" // as the library continues
		if n, err := v.Write([]byte(written)); n != len(written) || err != nil {
			t.Errorf("%q: %d, %v", tc.text, n, err)
		}
		if got, want := screen.String(), tc.text+tc.want; got != want {
			t.Errorf("%q, %d of %d columns: %q, want %q", tc.text, tc.pos, tc.width, got, want)
		}
	}
}
