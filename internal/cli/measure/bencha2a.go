package measure

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

// maxBenchA2A bounds the conversations of `cortex bench a2a`.
const maxBenchA2A = 1000

func (e *streams) newBenchA2A() *cobra.Command {
	var (
		contexts []int
		cfg      bench.A2AConfig
		b        *bencher
	)
	c := &cobra.Command{
		Use:   "a2a",
		Short: "Measure turns by way of the A2A server",
		Long: `Measure turns that are delegated to an agent, by way of Cortex's A2A server, with JSON-RPC, HTTP+JSON and gRPC. Beside them are the
same turns without A2A, and the floor: calls of a server that does nothing but answer, with the same bindings. Clients and servers
are in one process, and speak over the loopback interface. Conversations have five turns each. What A2A adds to a turn at p50 is to be
at most 1 ms with one conversation.`,
		Example: "  cortex bench a2a\n  cortex bench a2a --conversations 1 --turns 10000\n  cortex bench a2a --conversations 64 --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkConversations(contexts, maxBenchA2A, "1,8,64"); err != nil {
				return err
			}
			if err := checkTurns(cmd, cfg.Turns); err != nil {
				return err
			}
			if err := b.check(); err != nil {
				return err
			}
			cfg.Limit = b.limit
			return b.a2a(cmd.Context(), cfg, contexts)
		},
	}
	b = e.newBencher(c, "each number of conversations")
	c.Flags().IntSliceVar(&contexts, "conversations", []int{1, 8}, "`CONVERSATIONS`: number of simultaneous conversations; the numbers of a list are measured one after the other")
	c.Flags().IntVar(&cfg.Turns, "turns", 0, "`N`: turns of each kind for each number of conversations (default 2000, but 20 of each conversation)")
	return c
}

// a2a measures and prints turns by way of the A2A server. It returns an error when a message has no right answer.
func (b *bencher) a2a(ctx context.Context, cfg bench.A2AConfig, contexts []int) error {
	var all []bench.Figure
	t := table.New("CONVERSATIONS", "", "BINDING", "TURNS", "WRONG", "P50", "P99", "PER SECOND")
	bar := screen.NewBar(b.e.stderr)
	cfg.Progress = bar.Draw
	for _, n := range contexts {
		cfg.Contexts = n
		lines, figures, err := bench.A2A(ctx, cfg)
		bar.Erase()
		for _, l := range lines {
			if b.asJSON {
				if err := view.NewJSON(b.e.stdout).Encode(l); err != nil {
					return err
				}
				continue
			}
			t.Row(fmt.Sprint(l.Contexts), l.Case, l.Binding, fmt.Sprint(l.Turns), fmt.Sprint(l.Wrong), micros(l.P50), micros(l.P99), fmt.Sprintf("%.0f", l.PerSecond))
		}
		all = append(all, figures...)
		if err != nil {
			return err
		}
	}
	return b.tell(t, all)
}
