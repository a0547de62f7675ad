package repl

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
)

// counted counts the bytes that are written to a terminal.
type counted struct {
	io.Writer
	n atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.Writer.Write(b)
}

// TestBurst types long lines at once, as a terminal without bracketed paste does with what is pasted. The line is as it was typed in the
// middle of another one, too, and it is not drawn anew for each of its runes: that was some 5 MB for 3 KB.
func TestBurst(t *testing.T) {
	t.Parallel()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, keys) }() // neither is closed: the library still uses them after Close
	out := &counted{Writer: tty}
	e, err := newLineEditor(tty, screen{w: out}, []string{"lorem ipsum"}, func() string { return "" }, func(string) (string, []string, func(string) string) { return "", nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if err := e.makeRaw(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("lorem ipsum dolor sit amet, 日本語 🙂 ", 90)
	for _, c := range []struct{ typed, want string }{
		{long, long},
		{"ab\x1b[D" + long, "a" + long + "b"},
		{long + "\x01x\x05y", "x" + long + "y"},
		{"\x1b[200~" + long[:400] + "\x1b[201~!", strings.TrimSuffix(strings.ToValidUTF8(long[:400], ""), " ") + "!"},
		{long[:100] + "\x7f\x7f", long[:98]},
	} {
		line := make(chan string, 1)
		before := out.n.Load()
		go func() {
			s, err := e.readLine("> ")
			if err != nil {
				s = err.Error()
			}
			line <- s
		}()
		if _, err := keys.WriteString(c.typed + "\r"); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-line:
			if got != c.want {
				t.Errorf("%.40q…: the line is %.80q… (%d bytes), want %.80q… (%d bytes)", c.typed, got, len(got), c.want, len(c.want))
			}
		case <-time.After(time.Minute):
			t.Fatalf("%.40q…: no line", c.typed)
		}
		if n := out.n.Load() - before; n > int64(20*len(c.typed)+8000) {
			t.Errorf("%.40q…: %d bytes were drawn for %d that were typed", c.typed, n, len(c.typed))
		}
	}
}
