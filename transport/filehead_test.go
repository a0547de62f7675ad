package transport_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestFileHead checks the beginnings of texts, inline and stored.
func TestFileHead(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"", ""},
		{"a,b\n1,2\n", "a,b\n1,2\n"},
		{strings.Repeat("x", 1000), strings.Repeat("x", transport.MaxFileHead)},
		{"xx" + strings.Repeat("日", 1000), "xx" + strings.Repeat("日", 132)},
		{"\x89PNG\r\n", ""},
		{"a\x00b", ""},
		{strings.Repeat("日", 1000) + "\xff", strings.Repeat("日", 133)},
	} {
		inline := &a2a.Part{Content: a2a.Raw(c.bytes)}
		if got := transport.HeadOf(inline); got != c.want {
			t.Errorf("HeadOf(%.20q…) = %q, want %q", c.bytes, got, c.want)
		}
		ref, err := transport.PutFile(t.Context(), chunks{}, "t", "c", "user", bytes.NewReader([]byte(c.bytes)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		part := carried(t, ref.Part("a", "text/plain"))
		if got := transport.HeadOf(part); got != c.want {
			t.Errorf("HeadOf of %.20q… that is stored = %q, want %q", c.bytes, got, c.want)
		}
		if again, err := transport.RefOf("t", part); err != nil || again.Head != c.want {
			t.Errorf("RefOf = %q, %v, want %q", again.Head, err, c.want)
		}
		if got := transport.HeadOf(transport.ForgottenFile(part)); got != "" {
			t.Errorf("HeadOf of what was let go = %q", got)
		}
	}
	for _, lie := range []any{strings.Repeat("x", 1<<20), "\xff", 7.0, nil} { // a sender may claim anything
		p := transport.FileRef{}.Part("a", "")
		p.SetMeta("file_head", lie)
		if got := transport.HeadOf(p); len(got) > transport.MaxFileHead || strings.Contains(got, "\xff") {
			t.Errorf("HeadOf = %.20q… of %d bytes", got, len(got))
		}
	}
	if got := transport.HeadOf(nil); got != "" {
		t.Errorf("HeadOf(nil) = %q", got)
	}
}
