package measure

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/bench"
)

func TestFigures(t *testing.T) {
	figures := []bench.Figure{
		{Case: "a", What: "fast enough", Value: 11.96, Unit: "x", Least: 12, Aim: 6, Less: true},
		{Case: "b", What: "too few", Value: 0.0951, Unit: "x floor", Least: 0.1},
		{Case: "c", What: "only told", Value: -1234.5, Unit: "us"},
	}
	for name, test := range map[string]struct {
		asJSON bool
		want   string
	}{
		"table": {false, `FIGURE       VALUE          REQUIRED       AIM
fast enough  12.0 x         ≤ 12 x         6 x  met
too few      0.095 x floor  ≥ 0.1 x floor       missed
only told    -1234 us

missed: the value is not as required. What else the machine does slows Cortex, too: measure again when it is idle.
`},
		"json": {true, `{"case":"a","what":"fast enough","value":11.96,"unit":"x","at_least":12,"aim":6,"less_is_better":true}
{"case":"b","what":"too few","value":0.0951,"unit":"x floor","at_least":0.1}
{"case":"c","what":"only told","value":-1234.5,"unit":"us"}
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			b := &bencher{e: &streams{stdout: &out}, asJSON: test.asJSON}
			if err := b.print(figures, missedSpeed); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
