package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCompareA2A checks what is said of measured turns, and that nothing is said when one kind was not measured.
func TestCompareA2A(t *testing.T) {
	lines := []A2ALine{
		{Case: "turn", Turns: 5, P50: 1500, PerSecond: 400},
		{Case: "floor", Binding: "GRPC", Turns: 5, P50: 100, PerSecond: 9000},
		{Case: "a2a", Binding: "GRPC", Turns: 5, P50: 2250, PerSecond: 300},
	}
	for contexts, least := range map[int]float64{1: 1, 8: 0} {
		of := map[int]string{1: "1 conversation", 8: "8 conversations"}[contexts]
		want := []Figure{
			{Case: "added_p50", What: "added to a turn at p50, GRPC, " + of, Value: 0.75, Unit: "ms", Least: least, Less: true},
			{Case: "rate_ratio", What: "turns/s, GRPC, " + of, Value: 0.75, Unit: "x without A2A"},
		}
		if diff := cmp.Diff(want, compareA2A(A2AConfig{Contexts: contexts}, lines)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of, diff)
		}
	}
	lines[1].Turns = 0
	if got := compareA2A(A2AConfig{Contexts: 1}, lines); got != nil {
		t.Errorf("nothing was measured, and it says %+v", got)
	}
}
