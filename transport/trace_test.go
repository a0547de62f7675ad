package transport_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		parent string
		want   bool
	}{
		{good, true},
		{"cc" + good[2:], true},
		{"cc" + good[2:] + "-what-the-future-will-be-like", true},
		{"", false},
		{good[:54], false},
		{good + "-01", false},
		{"cc" + good[2:] + ".what", false},
		{"cc" + good[2:] + "-a b", false},
		{"cc" + good[2:] + "-" + strings.Repeat("x", transport.MaxID), false},
		{"ff" + good[2:], false},
		{"0x" + good[2:], false},
		{strings.ToUpper(good), false},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
		{"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
		{"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n", false},
	} {
		e := transport.Event{Traceparent: c.parent, Tracestate: "a=1"}
		parent, state := e.Trace()
		if got := parent != ""; got != c.want || got && parent != c.parent || (state != "") != c.want {
			t.Errorf("Trace of %q = %q, %q; passed on %v, want %v", c.parent, parent, state, got, c.want)
		}
	}
}

func TestTracestate(t *testing.T) {
	for _, c := range []struct {
		state string
		want  bool
	}{
		{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true},
		{"a=1,, \tb=2 ,", true},
		{"1t@sys=x", true},
		{"a_b-c*d/e=a b;c:{d}", true},
		{strings.Repeat("a", 256) + "=1", true},
		{manyKeys(32), true},
		{"", false},
		{",", false},
		{"a", false},
		{"=1", false},
		{"a=", false},
		{"A=1", false},
		{"1a=1", false},
		{"_a=1", false},
		{"a@1=1", false},
		{"@a=1", false},
		{"a@=1", false},
		{"a@b@c=1", false},
		{"a=1,a=2", false},
		{"a=b=c", false},
		{"a=\x01", false},
		{"a=é", false},
		{strings.Repeat("a", 257) + "=1", false},
		{"a=" + strings.Repeat("x", 257), false},
		{"a=" + strings.Repeat("x", 255) + ",b=" + strings.Repeat("x", 255), false},
		{manyKeys(33), false},
	} {
		e := transport.Event{Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: c.state}
		if parent, state := e.Trace(); parent != e.Traceparent || (state != "") != c.want || state != "" && state != c.state {
			t.Errorf("Trace of state %q = %q, %q, want it passed on: %v", c.state, parent, state, c.want)
		}
	}
}

// manyKeys returns a tracestate with n members.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d=1,", i)
	}
	return b.String()
}
