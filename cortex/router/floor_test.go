package router_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// TestFloor detects regressions on the few and easy requests of testdata; it does not measure quality. README.md has the figures on public data.
func TestFloor(t *testing.T) {
	x := put(agents(t))
	var fit, none, top1, recall5, kept, refused int
	for _, q := range requests(t) {
		hits := x.Search(q.Query, nil)
		fits := len(hits) > 0 && hits[0].Score >= router.Fits
		if len(q.Agents) == 0 {
			none++
			if !fits {
				refused++
			} else {
				t.Logf("%q: %s %.2f, none fits", q.Query, hits[0].ID, hits[0].Score)
			}
			continue
		}
		fit++
		if fits {
			kept++
		}
		for i, h := range hits[:min(5, len(hits))] {
			if h.ID == q.Agents[0] {
				recall5++
				if i == 0 {
					top1++
				} else {
					t.Logf("%q: %s, want %s", q.Query, hits[0].ID, q.Agents[0])
				}
			}
		}
	}
	for _, f := range []struct {
		name    string
		got, of int
		floor   float64
	}{
		{"top-1", top1, fit, 0.90},
		{"recall@5", recall5, fit, 0.95},
		{"in scope kept", kept, fit, 0.85},
		{"out of scope refused", refused, none, 0.75},
	} {
		t.Logf("%s: %d of %d", f.name, f.got, f.of)
		if float64(f.got) < f.floor*float64(f.of) {
			t.Errorf("%s: %d of %d, want %v of them", f.name, f.got, f.of, f.floor)
		}
	}
}
