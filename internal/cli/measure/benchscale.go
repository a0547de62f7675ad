package measure

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
)

func (e *streams) newBenchHistory() *cobra.Command {
	var (
		cfg bench.HistoryConfig
		b   *bencher
	)
	c := &cobra.Command{
		Use:   "history",
		Short: "Measure what a long conversation costs",
		Long: `Measure what the length of a conversation costs: an append at its end, a load by a process that does not know it, with and
without a snapshot, and a turn when it is half as long.`,
		Example: "  cortex bench history\n  cortex bench history --entries 2000 --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkBound("entries", cfg.Entries, 100, maxBenchEntries); err != nil {
				return err
			}
			return b.measure(func(limit time.Duration, p bench.Progress) ([]bench.Figure, error) {
				cfg.Limit, cfg.Progress = limit, p
				return bench.History(cmd.Context(), cfg)
			})
		},
	}
	b = e.newBencher(c, "each part")
	c.Flags().IntVar(&cfg.Entries, "entries", 10_000, "`N`: length of the conversation, in entries of the log")
	return c
}

func (e *streams) newBenchRestart() *cobra.Command {
	var (
		cfg bench.RestartConfig
		b   *bencher
	)
	c := &cobra.Command{
		Use:   "restart",
		Short: "Measure a restart with many conversations and agents",
		Long: `Measure how long ` + "`cortex serve`" + ` needs until it is ready on a store with many conversations and agents, after it was
stopped and after it was killed, and the memory that it needs. The store is built first, in a temporary folder, which takes a while.`,
		Example: "  cortex bench restart\n  cortex bench restart --conversations 10000 --agents 100 --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkBound("agents", cfg.Agents, 1, maxBenchAgents); err != nil {
				return err
			}
			if err := checkBound("conversations", cfg.Conversations, 1, maxBenchStored); err != nil {
				return err
			}
			if cfg.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("this program: %w", err)
			}
			return b.measure(func(_ time.Duration, p bench.Progress) ([]bench.Figure, error) {
				cfg.Progress = p
				return bench.Restart(cmd.Context(), cfg)
			})
		},
	}
	b = e.newBencher(c, "")
	c.Flags().IntVar(&cfg.Conversations, "conversations", 100_000, "`N`: number of stored conversations")
	c.Flags().IntVar(&cfg.Agents, "agents", defaultBenchAgents, "`N`: number of agents")
	return c
}

func (e *streams) newBenchDiscovery() *cobra.Command {
	var (
		cfg bench.DiscoveryConfig
		b   *bencher
	)
	c := &cobra.Command{
		Use:   "discovery",
		Short: "Measure what many agents cost",
		Long: `Measure what many agents cost: how long it takes from before a card is published until the agent is in the prompt of a
request that it fits, how large the prompts are, and how much longer a turn takes than with one agent. The agents' heartbeats go on.`,
		Example: "  cortex bench discovery\n  cortex bench discovery --agents 500 --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkBound("agents", cfg.Agents, 1, maxBenchAgents); err != nil {
				return err
			}
			return b.measure(func(limit time.Duration, p bench.Progress) ([]bench.Figure, error) {
				cfg.Limit, cfg.Progress = limit, p
				return bench.Discovery(cmd.Context(), cfg)
			})
		},
	}
	b = e.newBencher(c, "each part")
	c.Flags().IntVar(&cfg.Agents, "agents", defaultBenchAgents, "`N`: number of agents")
	return c
}

const defaultBenchAgents = 10_000
