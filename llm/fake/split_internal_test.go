package fake

import (
	"math/rand/v2"
	"testing"
)

// TestMayJoin compares mayJoin with joint, for texts of what joins requests and of what does not.
func TestMayJoin(t *testing.T) {
	t.Parallel()
	pieces := []string{"a", "and", "And", "then", "also", "x", " ", "  ", "\t", "\n", "\r\n", "\v", ",", ";", ".", "?!", "-", "1. ", "\u00a0", "\u2028", "é", "日", "\x80", "\xe2", "\""}
	r := rand.New(rand.NewPCG(1, 2))
	joined := 0
	for range 200_000 {
		text := ""
		for range 1 + r.IntN(6) {
			text += pieces[r.IntN(len(pieces))]
		}
		for _, narrow := range []bool{false, true} {
			if joint(text, narrow) > 0 {
				if joined++; !mayJoin(text) {
					t.Fatalf("%q joins requests, and mayJoin says that it does not", text)
				}
			}
		}
	}
	if joined < 10_000 {
		t.Errorf("%d texts join requests; the test compares nothing", joined)
	}
}
