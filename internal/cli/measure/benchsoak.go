package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

const (
	minSoak = time.Minute
	maxSoak = 7 * 24 * time.Hour
)

func (e *streams) newBenchSoak() *cobra.Command {
	var (
		cfg bench.SoakConfig
		b   *bencher
	)
	c := &cobra.Command{
		Use:   "soak",
		Short: "Look for what grows over a long time",
		Long: `Let Cortex work for a long time, at a third of what the machine can do, and look every minute at what it uses: memory,
goroutines, open files, what is stored. Some conversations are new all the time and some are long; turns have one delegation or three; an
agent fails now and then, others come, change and go; users cancel, and deadlines pass.

What is in memory of a conversation is let go when it is finished, and one every ten seconds is erased; else the log is kept, so that
its files grow (some GB in half an hour, in the folder for temporary files) and with them the server's index, by about 0.2 KB a
conversation. All else that grows is a leak: the last third of the time is compared with the second one. A run of less than ten minutes
is judged by what is lost only, since it is still warming up.`,
		Example: "  cortex bench soak\n  cortex bench soak --for 12h --json > soak.jsonl",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.For < minSoak || cfg.For > maxSoak {
				return usage.Errorf("--for %v: it is from %v to %v", cfg.For, minSoak, maxSoak)
			}
			return b.soak(cmd.Context(), cfg, bench.Soak)
		},
	}
	b = e.newBencher(c, "")
	c.Flags().DurationVar(&cfg.For, "for", 30*time.Minute, "`LONG`: duration, at least a minute")
	return c
}

// soak runs a measurement and prints its figures, also those of an interrupted run. It returns an error when a message was not answered, or answered
// twice.
func (b *bencher) soak(
	ctx context.Context, cfg bench.SoakConfig, run func(context.Context, bench.SoakConfig) (bench.SoakSum, []bench.Figure, error),
) error {
	t := table.New("TIME", "TURNS", "TURNS/S", "HEAP MB", "RSS MB", "GOROUTINES", "FILES", "KEPT", "ENTRIES", "LOG MB", "INBOX", "INBOX MB", "LOST", "TWICE")
	if b.asJSON {
		t = nil
	}
	bar := screen.NewBar(b.e.stderr)
	var failed error
	cfg.Progress = bar.Draw
	cfg.Line = func(l bench.SoakLine) {
		if t == nil {
			failed = view.NewJSON(b.e.stdout).Encode(l)
			return
		}
		rss, files := "-", "-" // where the system does not report them
		if l.RSS > 0 {
			rss = fmt.Sprintf("%.1f", l.RSS)
		}
		if l.Files > 0 {
			files = fmt.Sprint(l.Files)
		}
		t.Row(time.Duration(l.Seconds*float64(time.Second)).Round(time.Second).String(), fmt.Sprint(l.Turns), fmt.Sprintf("%.0f", l.PerSecond),
			fmt.Sprintf("%.1f", l.Heap), rss, fmt.Sprint(l.Goroutines), files, fmt.Sprint(l.Conversations), fmt.Sprint(l.Entries),
			fmt.Sprintf("%.0f", l.Log), fmt.Sprint(l.Inbox), fmt.Sprintf("%.1f", l.InboxSize), fmt.Sprint(l.Lost), fmt.Sprint(l.Dup))
	}
	sum, figures, err := run(ctx, cfg)
	bar.Erase()
	switch {
	case sum.Turns == 0:
		return err
	case t == nil:
		if err := view.NewJSON(b.e.stdout).Encode(sum); failed == nil {
			failed = err
		}
	default:
		total := table.New("TURNS", "CONVERSATIONS", "ERASED", "CANCELED", "LATE", "TRIED AGAIN", "AGENTS LEFT", "CARDS CHANGED")
		var cells []string
		for _, n := range []int{sum.Turns, sum.Conversations, sum.Erased, sum.Canceled, sum.Late, sum.Retries, sum.Agents, sum.Cards} {
			cells = append(cells, fmt.Sprint(n))
		}
		total.Row(cells...)
		width := screen.Width(b.e.stdout)
		_, failed = fmt.Fprintf(b.e.stdout, "%s\n%s\n", t.Parts(width, 1), total.Parts(width, 1))
	}
	for _, next := range []error{failed, b.print(figures, missedGrowth), err} {
		if next != nil {
			return next
		}
	}
	return neverLost(sum.Lost, sum.Dup)
}
