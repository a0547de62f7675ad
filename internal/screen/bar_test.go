package screen

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := &bar{w: &out}
	b.Draw("turns", 1, 4)
	b.Draw("turns", 2, 4) // too soon
	b.Draw("turns", 4, 4) // the end is always shown
	b.Draw("x\x1b[2Jy", 9, 3)
	b.Draw("nothing", 0, 0)
	b.Erase()
	b.Erase()
	want := []string{"", "[######..................] turns", "[########################] turns", "[########################] xy", ""}
	if diff := cmp.Diff(want, strings.Split(out.String(), "\r\x1b[K")); diff != "" {
		t.Errorf("drawn (-want +got)\n%s", diff)
	}
	quiet := NewBar(&out)
	out.Reset()
	quiet.Draw("turns", 1, 4)
	quiet.Erase()
	if out.Len() > 0 {
		t.Errorf("drawn on what is no terminal: %q", out.String())
	}
}
