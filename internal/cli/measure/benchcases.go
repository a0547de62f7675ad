package measure

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

func (e *streams) newBenchCases() *cobra.Command {
	var (
		cfg bench.CasesConfig
		b   *bencher
	)
	names := strings.Join(bench.CaseNames(), ", ")
	c := &cobra.Command{
		Use:   "cases",
		Short: "Measure what people have: new conversations, models that stream, many agents",
		Long: `Measure turns as people have them, beside plain turns in the same run, in pieces that alternate: conversations of one question,
messages of 10 KB, 100 and 10,000 agents, Cortex and its agent in processes of their own, 10,000 conversations that are active at the
same time, and a model that streams fifty chunks a second from another process.

Beside the times is what a turn costs: CPU of all processes but the model's, objects that are allocated, messages that are sent, messages
that the server stores, and bytes that are written to files. The row "stored" is a floor: as many messages as a turn stores, stored and
acknowledged one after the other, with nothing else. What only another process or another system could tell is -.`,
		Example: "  cortex bench cases\n  cortex bench cases --case one,agents --turns 5000\n  cortex bench cases --case stream-64 --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			for _, name := range cfg.Only {
				if !slices.Contains(bench.CaseNames(), name) {
					return usage.Errorf("--case %s: it is one of %s", name, names)
				}
			}
			if err := checkTurns(cmd, cfg.Turns); err != nil {
				return err
			}
			if err := b.check(); err != nil {
				return err
			}
			cfg.Limit = b.limit
			if cfg.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("this program: %w", err)
			}
			return b.cases(cmd.Context(), cfg)
		},
	}
	b = e.newBencher(c, "each case")
	c.Flags().StringSliceVar(&cfg.Only, "case", nil, "`CASES`: of "+names+" (default all)")
	c.Flags().IntVar(&cfg.Turns, "turns", 0, "`N`: turns of each row (default 1000, but 5 of each conversation)")
	return c
}

// cases measures and prints turns in situations. It returns an error when a message was not answered, or answered twice.
func (b *bencher) cases(ctx context.Context, cfg bench.CasesConfig) error {
	t := table.New("CASE", "", "CONVERSATIONS", "TURNS", "LOST", "TWICE", "P50", "P99", "PER SECOND", "CPU", "OBJECTS", "SENT", "STORED", "KB WRITTEN")
	bar := screen.NewBar(b.e.stderr)
	cfg.Progress = bar.Draw
	lost, dup := 0, 0
	var failed error
	cfg.Row = func(r bench.Row) {
		lost, dup = lost+r.Lost, dup+r.Dup
		if b.asJSON {
			failed = view.NewJSON(b.e.stdout).Encode(r)
			return
		}
		known := func(format string, x float64) string {
			if x == 0 {
				return "-"
			}
			return fmt.Sprintf(format, x)
		}
		cpu := "-"
		if r.CPU > 0 {
			cpu = micros(r.CPU)
		}
		t.Row(r.Case, r.Name, fmt.Sprint(r.Conversations), fmt.Sprint(r.Turns), fmt.Sprint(r.Lost), fmt.Sprint(r.Dup), micros(r.P50), micros(r.P99),
			fmt.Sprintf("%.0f", r.PerSecond), cpu, known("%.0f", r.Objects), known("%.1f", r.Sent), known("%.1f", r.Stored), known("%.1f", r.Written/1024))
	}
	figures, err := bench.Cases(ctx, cfg)
	bar.Erase()
	err = cmp.Or(err, failed)
	if err != nil {
		return err
	}
	if err := b.tell(t, figures); err != nil {
		return err
	}
	return neverLost(lost, dup)
}

// newBenchModel returns the command with which `cortex bench cases` starts a model.
func (e *streams) newBenchModel() *cobra.Command {
	return &cobra.Command{
		Use: "model", Short: "Be the model of cortex bench cases", Example: "  cortex bench model", Hidden: true, Args: typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "http://%s\n", l.Addr())
			return bench.Model(cmd.Context(), l)
		},
	}
}
