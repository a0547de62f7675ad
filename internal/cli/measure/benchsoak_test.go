package measure

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/bench"
)

// TestSoakScreen checks the output of a soak for people and programs: of one with lost messages, and of one that was interrupted.
func TestSoakScreen(t *testing.T) {
	lines := []bench.SoakLine{
		{
			Case: "soak", Seconds: 60.01, Turns: 6982, PerSecond: 72.82, Heap: 106.92, RSS: 326.52, Goroutines: 417, Files: 14, Conversations: 145,
			Entries: 15800, Log: 42.8, Inbox: 106, InboxSize: 0.06,
		},
		{Case: "soak", Seconds: 3600, Turns: 400_000, PerSecond: 120, Heap: 99, Goroutines: 420, Conversations: 9, Lost: 1, Dup: 2},
	}
	sum := bench.SoakSum{
		Case: "soak_sum", Turns: 400_000, Conversations: 2000, Erased: 180, Canceled: 33, Late: 44, Retries: 55, Agents: 66, Cards: 77, Lost: 1, Dup: 2,
	}
	figures := []bench.Figure{{Case: "heap_growth", What: "heap after a collection, last third to second", Value: 7, Unit: "%", Least: 5, Less: true}}
	const table = `TIME    TURNS   TURNS/S  HEAP MB  RSS MB  GOROUTINES  FILES  KEPT  ENTRIES  LOG MB  INBOX  INBOX MB  LOST  TWICE
1m0s    6982    73       106.9    326.5   417         14     145   15800    43      106    0.1       0     0
1h0m0s  400000  120      99.0     -       420         -      9     0        0       0      0.0       1     2

TURNS   CONVERSATIONS  ERASED  CANCELED  LATE  TRIED AGAIN  AGENTS LEFT  CARDS CHANGED
400000  2000           180     33        44    55           66           77

FIGURE                                         VALUE   REQUIRED
heap after a collection, last third to second  7.00 %  ≤ 5 %     missed

missed: more has grown than may, or something was lost. ` + "`cortex bench soak --help`" + ` says what may grow; all else is a fault of Cortex.
`
	failed := errors.New("the server is gone")
	for name, test := range map[string]struct {
		asJSON bool
		err    error
		want   string
		says   string
	}{
		"table":       {false, nil, table, "messages without an answer: 1, answers that came twice: 2: that must never be"},
		"interrupted": {false, failed, table, failed.Error()},
		"json": {true, nil, `{"case":"soak","s":60.01,"turns":6982,"per_s":72.82,"heap_mb":106.92,"rss_mb":326.52,"goroutines":417,"files":14,"kept":145,"entries":15800,"log_mb":42.8,"inbox":106,"inbox_mb":0.06,"lost":0,"dup":0}
{"case":"soak","s":3600,"turns":400000,"per_s":120,"heap_mb":99,"rss_mb":0,"goroutines":420,"files":0,"kept":9,"entries":0,"log_mb":0,"inbox":0,"inbox_mb":0,"lost":1,"dup":2}
{"case":"soak_sum","turns":400000,"conversations":2000,"erased":180,"canceled":33,"late":44,"retries":55,"agents":66,"cards":77,"lost":1,"dup":2}
{"case":"heap_growth","what":"heap after a collection, last third to second","value":7,"unit":"%","at_least":5,"less_is_better":true}
`, "that must never be"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			b := &bencher{e: &streams{stdout: &out, stderr: &bytes.Buffer{}}, asJSON: test.asJSON}
			err := b.soak(t.Context(), bench.SoakConfig{}, func(_ context.Context, cfg bench.SoakConfig) (bench.SoakSum, []bench.Figure, error) {
				for _, l := range lines {
					cfg.Line(l)
				}
				return sum, figures, test.err
			})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("soak = %v, want %q", err, test.says)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s", diff, out.String())
			}
		})
	}
}
