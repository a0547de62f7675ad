package agents

import (
	"fmt"
	"testing"
)

// TestPlaces checks who may begin a task at an agent when a host serves eight at a time.
func TestPlaces(t *testing.T) {
	p := newPlaces(8)
	for i := range 6 {
		if !p.begin(fmt.Sprint("a", i), "ann", false) {
			t.Fatalf("ann cannot have place %d", i+1)
		}
	}
	for _, c := range []struct {
		agent, who string
		must, want bool
	}{
		{"a6", "ann", false, false},
		{"a5", "ann", false, true}, // a second task
		{"a6", "bob", false, true},
		{"a7", "bob", false, true},
		{"a8", "bob", false, false}, // all are taken
		{"a8", "eve", false, true},  // she waits for a place
		{"a9", "bob", true, true},
	} {
		if got := p.begin(c.agent, c.who, c.must); got != c.want {
			t.Errorf("begin(%s, %s, %v) = %v", c.agent, c.who, c.must, got)
		}
	}
	p.end("a5", "ann")
	for i := range 6 {
		p.end(fmt.Sprint("a", i), "ann")
	}
	for _, c := range [][2]string{{"a6", "bob"}, {"a7", "bob"}, {"a8", "eve"}, {"a9", "bob"}} {
		p.end(c[0], c[1])
	}
	if len(p.at) != 0 || len(p.of) != 0 {
		t.Errorf("at the end it holds %v, %v", p.at, p.of)
	}
}
