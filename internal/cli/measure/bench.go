package measure

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/bench"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

// Bounds of the flags of `cortex bench`.
const (
	maxBenchContexts = 10_000
	maxBenchTurns    = 10_000_000
	maxBenchAgents   = 19_000 // the registry's bound, less the agents that do the work
	maxBenchEntries  = 100_000
	maxBenchStored   = 10_000_000
	maxBenchDelay    = time.Minute
)

// streams are those of the command.
type streams struct{ stdout, stderr io.Writer }

// showWhole prints a table in full, also on a terminal, since every column is needed; the first keys columns say what a row is.
func (e *streams) showWhole(t *table.Table, keys int) error {
	_, err := io.WriteString(e.stdout, t.Parts(screen.Width(e.stdout), keys))
	return err
}

// New returns `cortex bench`.
func New(stdout, stderr io.Writer) *cobra.Command {
	e := &streams{stdout, stderr}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Long: `Measure Cortex on this machine, on servers of its own in temporary folders: nothing that runs or is kept is touched, and no model is
asked.

Each speed is shown beside its floor, measured in the same run in short pieces that alternate, so that whatever else the machine
does slows both alike: the ratio counts, not the time.`,
		Example: "  cortex bench turns\n  cortex bench turns --conversations 256,1000 --llm-delay 200ms\n  cortex bench cases\n  cortex bench a2a\n  cortex bench restart --conversations 100000",
		Args:    typed.Exact(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(e.newBenchTurns(), e.newBenchHistory(), e.newBenchRestart(), e.newBenchDiscovery(), e.newBenchCases(), e.newBenchA2A(), e.newBenchSoak(), e.newBenchModel())
	return c
}

// bencher holds what the commands below bench have in common.
type bencher struct {
	e      *streams
	asJSON bool
	limit  time.Duration
}

func (e *streams) newBencher(c *cobra.Command, limited string) *bencher {
	b := &bencher{e: e, limit: time.Minute}
	c.PreRunE = OwnServer
	c.Flags().BoolVar(&b.asJSON, "json", false, "as JSON, one object on each line")
	if limited != "" {
		c.Flags().DurationVar(&b.limit, "time-limit", time.Minute, "`TIME`: start nothing new after this time for "+limited)
	}
	return b
}

// OwnServer refuses flags that select a Cortex, for commands that start their own. The environment and the config file are ignored: their settings
// are for other commands.
func OwnServer(cmd *cobra.Command, _ []string) error {
	for _, flag := range []string{"data", "nats", "creds", "tls-ca", "tls-cert", "tls-key", "tenant", "transport", "store"} {
		if cmd.Flags().Changed(flag) {
			return usage.Errorf("--%s is nothing for `%s`: it starts a Cortex of its own", flag, cmd.CommandPath())
		}
	}
	return nil
}

func (b *bencher) check() error {
	if b.limit <= 0 {
		return usage.Errorf("--time-limit %v: it must be more than nothing, such as 1m", b.limit)
	}
	return nil
}

// checkBound returns an error unless the value n of a flag is between least and most.
func checkBound(flag string, n, least, most int) error {
	if n < least || n > most {
		return usage.Errorf("--%s %d: it is from %d to %d", flag, n, least, most)
	}
	return nil
}

// checkConversations checks a list of numbers of conversations, each of which is at most most. such is an example.
func checkConversations(list []int, most int, such string) error {
	if len(list) == 0 || len(list) > 16 {
		return usage.Errorf("--conversations: name one number to sixteen, such as %s", such)
	}
	for _, n := range list {
		if err := checkBound("conversations", n, 1, most); err != nil {
			return err
		}
	}
	return nil
}

// checkTurns checks the value of --turns, if it was given.
func checkTurns(cmd *cobra.Command, n int) error {
	if !cmd.Flags().Changed("turns") {
		return nil
	}
	return checkBound("turns", n, 1, maxBenchTurns)
}

func (e *streams) newBenchTurns() *cobra.Command {
	var (
		contexts []int
		cfg      bench.TurnsConfig
		b        *bencher
	)
	c := &cobra.Command{
		Use:   "turns",
		Short: "Measure turns beside their floor",
		Long: `Measure turns, from before a user's message is published until its answer is there: the message is stored, a decision gives
a task to an agent, its result is stored, a second decision makes the answer. The floor is the same way with nothing on it: two
requests of NATS within each other, of 256 bytes, on the same connections.

The agents do nothing but say back what they are told, and the decisions are made without a model. With --llm-delay each of the two
decisions of a turn takes that long; there is no floor then but the ideal, in which nothing else takes time.`,
		Example: "  cortex bench turns\n  cortex bench turns --conversations 1 --tcp\n" +
			"  cortex bench turns --conversations 256,1000 --llm-delay 200ms\n  cortex bench turns --conversations 64 --turns 20000 --json",
		Args: typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkConversations(contexts, maxBenchContexts, "1,8,64,256"); err != nil {
				return err
			}
			if err := checkTurns(cmd, cfg.Turns); err != nil {
				return err
			}
			if err := checkBound("delegations", cfg.Delegations, 1, conversation.MaxParallel); err != nil {
				return err
			}
			if cfg.Delay < 0 || cfg.Delay > maxBenchDelay {
				return usage.Errorf("--llm-delay %v: it is from 0s to %v", cfg.Delay, maxBenchDelay)
			}
			if err := b.check(); err != nil {
				return err
			}
			cfg.Limit = b.limit
			return b.turns(cmd.Context(), cfg, contexts)
		},
	}
	b = e.newBencher(c, "each number of conversations")
	c.Flags().IntSliceVar(&contexts, "conversations", []int{1, 8, 64, 256}, "`CONVERSATIONS`: number of simultaneous conversations; the numbers of a list are measured one after the other")
	c.Flags().IntVar(&cfg.Turns, "turns", 0, "`N`: turns for each number of conversations (default 10000, but 20 of each conversation)")
	c.Flags().BoolVar(&cfg.TCP, "tcp", false, "users and agents are connected over TCP, rather than in the process")
	c.Flags().DurationVar(&cfg.Delay, "llm-delay", 0, "`TIME`: duration of each decision, such as 200ms")
	c.Flags().IntVar(&cfg.Delegations, "delegations", 1, "`N`: tasks of a turn, each for another agent")
	return c
}

// turns measures and prints turns. It returns an error when a message was not answered, or answered twice.
func (b *bencher) turns(ctx context.Context, cfg bench.TurnsConfig, contexts []int) error {
	var figures []bench.Figure
	t := table.New("CONVERSATIONS", "", "TURNS", "LOST", "TWICE", "P50", "P99", "PER SECOND", "STORED")
	if b.asJSON {
		t = nil
	}
	bar := screen.NewBar(b.e.stderr)
	cfg.Progress = bar.Draw
	lost, dup := 0, 0
	for _, n := range contexts {
		cfg.Contexts = n
		floor, turn, err := bench.Turns(ctx, cfg)
		bar.Erase()
		for _, l := range []bench.Line{floor, turn} {
			if l.Case == "" {
				continue
			}
			if t == nil {
				if err := view.NewJSON(b.e.stdout).Encode(l); err != nil {
					return err
				}
			} else {
				t.Row(fmt.Sprint(l.Contexts), l.Case, fmt.Sprint(l.Turns), fmt.Sprint(l.Lost), fmt.Sprint(l.Dup),
					micros(l.P50), micros(l.P99), fmt.Sprintf("%.0f", l.PerSecond), fmt.Sprintf("%.1f", l.Stored))
			}
		}
		lost, dup = lost+turn.Lost, dup+turn.Dup
		figures = append(figures, bench.Compare(cfg, floor, turn)...)
		if err != nil {
			return err
		}
	}
	if t != nil {
		if err := b.tell(t, figures); err != nil {
			return err
		}
	}
	return neverLost(lost, dup)
}

// neverLost returns an error when messages have no answer, or more than one.
func neverLost(lost, dup int) error {
	if lost == 0 && dup == 0 {
		return nil
	}
	return fmt.Errorf("messages without an answer: %d, answers that came twice: %d: that must never be", lost, dup)
}

// micros formats microseconds.
func micros(us float64) string {
	return time.Duration(us * float64(time.Microsecond)).Round(time.Microsecond).String()
}
