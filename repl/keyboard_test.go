package repl

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/transport"
)

// pieces is a terminal that receives each element at once.
type pieces chan string

func typing(all ...string) pieces {
	p := make(pieces, len(all))
	for _, s := range all {
		p <- s
	}
	close(p)
	return p
}

func (p pieces) Read(b []byte) (int, error) {
	s, ok := <-p
	if !ok {
		return 0, io.EOF
	}
	return copy(b, s), nil
}

func TestKeyboard(t *testing.T) {
	long := strings.Repeat("0123456789\r\n", 60)
	for _, tc := range []struct {
		name string
		in   []string
		want string // expanded
	}{
		{"keys", []string{"ab", "\x1b[A", "\r"}, "ab\x1b[A\r"},
		{"split rune", []string{"\xe2", "\x82", "\xacx"}, "€x"},
		{"split sequence", []string{"\x1b", "[", "1;5", "Cx"}, "\x1b[1;5Cx"},
		{"SS3", []string{"\x1b", "O", "Hx"}, "\x1bOHx"},
		{"Home and End of tmux", []string{"a\x1b[1~b\x1b[", "4~c"}, "a\x01b\x05c"},
		{"Home and End of rxvt", []string{"a\x1b[7~b\x1b[8~c"}, "a\x01b\x05c"},
		{"meta", []string{"\x1bbx"}, "\x1bbx"},
		{"paste", []string{"a\x1b[200~b\rc\r\nd\te\x1b[201~f"}, "ab\nc\nd\tef"},
		{"paste in pieces", []string{"\x1b[2", "00~b", "\r", "c\x1b", "[201", "~f"}, "b\ncf"},
		{"paste with what looks like its end", []string{"\x1b[200~b\x1b[201", "x\x1b[201~f"}, "bf"},
		{"pasted sequences", []string{"\x1b[200~\x1b[31mb\x03\x04\x1b[201~"}, "b"},
		{"long paste", []string{"\x1b[200~" + long + "\x1b[201~!"}, strings.TrimSpace(strings.ReplaceAll(long, "\r\n", "\n")) + "!"},
		{
			"two long pastes",
			[]string{"\x1b[200~" + long + "\x1b[201~", "+\x1b[200~" + long + "x\x1b[201~"},
			strings.TrimSpace(strings.ReplaceAll(long, "\r\n", "\n")) + "+" + strings.ReplaceAll(long, "\r\n", "\n") + "x",
		},
		{"keys that end the chat by mistake", []string{"a\x00\x1ab\x1b[3~c"}, "abc"},
		{"marks", []string{"a\ufdd0\ufdd2b"}, "ab"},
		{"end within a key", []string{"a\x1b["}, "a\x1b["},
		{"invalid UTF-8", []string{"a\xffb"}, "a\xffb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeyboard(typing(tc.in...), func() bool { return true })
			defer k.Close()
			b, err := io.ReadAll(k)
			if got := k.expand(string(b)); got != tc.want || err != nil {
				t.Errorf("keys %q = %q, %v, want %q", tc.in, got, err, tc.want)
			}
		})
	}
}

// TestKeyboardHugePaste checks that a paste above the limit is refused when it is sent, not cut.
func TestKeyboardHugePaste(t *testing.T) {
	in := []string{"\x1b[200~"}
	for range 1200 {
		in = append(in, strings.Repeat("x", 1024))
	}
	k := newKeyboard(typing(append(in, "\x1b[201~")...), func() bool { return true })
	defer k.Close()
	b, err := io.ReadAll(k)
	if err != nil || string(b) != "[paste 1: 1 line]" {
		t.Fatalf("line = %.40q, %v, want a label", b, err)
	}
	if got := len(k.expand(string(b))); got != transport.MaxText+1 {
		t.Errorf("a huge paste is sent as %d bytes, want %d", got, transport.MaxText+1)
	}
}

func TestKeyboardWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(pieces)
		k := newKeyboard(in, func() bool { return true })
		got := make(chan string)
		go func() {
			defer close(got)
			b := make([]byte, 64)
			for {
				n, err := k.Read(b)
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Error(err)
					}
					return
				}
				got <- string(b[:n])
			}
		}()
		in <- "a"
		if s := <-got; s != "a" {
			t.Errorf("read %q, want a", s)
		}
		in <- "\xe2\x82" // an incomplete rune
		k.wake()
		if s := <-got; s != string(wakeMark) {
			t.Errorf("read %q, want the wake mark", s)
		}
		in <- "\xac"
		if s := <-got; s != "€" {
			t.Errorf("read %q, want the whole rune", s)
		}
		synctest.Wait()
		k.Close()
		if _, ok := <-got; ok {
			t.Error("read something after Close")
		}
		close(in)
	})
}
