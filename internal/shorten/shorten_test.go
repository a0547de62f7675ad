package shorten_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

func TestTo(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"aé", 3, "aé"},
		{"aé", 2, "a"},
		{"日本", 5, "日"},
		{"😀😀", 7, "😀"},
		{"😀", 3, ""},
		{"\x80\x80\x80\x80\x80\x80\x80", 6, "\x80\x80"}, // no character begins anywhere
	} {
		if got := shorten.To(c.s, c.n); got != c.want {
			t.Errorf("To(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

// TestToIsACopy checks that the beginning of a text does not keep its end in memory.
func TestToIsACopy(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, got := range []string{shorten.To(long, 10), shorten.Words([]string{long}, 1, 10)[0]} {
		if unsafe.StringData(got) == unsafe.StringData(long) {
			t.Errorf("%q is a part of the long text", got)
		}
	}
}

func TestMarked(t *testing.T) {
	for _, c := range []struct{ s, want string }{{"aé", "aé"}, {"aéé", "aé…"}, {"日本", "日…"}} {
		if got := shorten.Marked(c.s, 3, "…"); got != c.want {
			t.Errorf("Marked(%q, 3) = %q, want %q", c.s, got, c.want)
		}
	}
}
