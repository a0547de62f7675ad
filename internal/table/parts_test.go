package table_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// TestParts checks that a table that is too wide is shown in parts, each of which says what its rows are, and elsewhere in one.
func TestParts(t *testing.T) {
	tb := table.New("CASE", "TURNS", "LOST", "PER SECOND")
	tb.Row("one", "20", "0", "3542")
	tb.Row("many", "20", "0", "758")
	for width, want := range map[int]string{
		0:  "CASE  TURNS  LOST  PER SECOND\none   20     0     3542\nmany  20     0     758\n",
		29: "CASE  TURNS  LOST  PER SECOND\none   20     0     3542\nmany  20     0     758\n",
		28: "CASE  TURNS  LOST\none   20     0\nmany  20     0\n\nCASE  PER SECOND\none   3542\nmany  758\n",
		5:  "CASE  TURNS\none   20\nmany  20\n\nCASE  LOST\none   0\nmany  0\n\nCASE  PER SECOND\none   3542\nmany  758\n",
	} {
		if got := tb.Parts(width, 1); got != want {
			t.Errorf("on %d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
	if got := (&table.Table{}).Parts(80, 1); got != "" {
		t.Errorf("a table without columns: %q", got)
	}
}
