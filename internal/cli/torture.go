package cli

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/measure"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/torture"
)

func (e *env) newTorture() *cobra.Command {
	cfg := torture.Config{Clients: 2, LongEntries: 5000}
	var keep string
	var asJSON bool
	c := &cobra.Command{
		Use:   "torture",
		Short: "Kill everything at random, and check every answer",
		Long: `Start servers, replicas, agents and clients as processes on this machine, kill them with SIGKILL at random moments and start
them again, and check afterwards that every message has exactly one answer, the right one, in order and in time. The exit
status is 1 when anything is wrong; then everything that was written is kept.`,
		Example: "  cortex torture --kills 50\n  cortex torture --kills 500 --topology cluster --seed 7 --json",
		Hidden:  true,
		Args:    typed.Exact(),
		PreRunE: measure.OwnServer,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cfg.Topology != torture.Single && cfg.Topology != torture.Replicas && cfg.Topology != torture.Cluster:
				return usagef("--topology %q: it is single, replicas or cluster", cfg.Topology)
			case cfg.Kills < 1, cfg.Agents < 2, cfg.Conversations < 1, cfg.Clients < 1, cfg.LongEntries < 0, cfg.Limit < 0:
				return usagef("a number is too small: at least --kills 1, --agents 2, --conversations 1, --clients 1, --entries 0 and --time-limit 0")
			}
			if cfg.Seed == 0 {
				cfg.Seed = rand.Uint64N(1_000_000) + 1
			}
			return e.torture(cmd.Context(), cfg, keep, asJSON)
		},
	}
	f := c.Flags()
	f.IntVar(&cfg.Kills, "kills", 100, "`N`: number of kills")
	f.StringVar(&cfg.Topology, "topology", torture.Single, "`WHAT`: what runs: single, one process; replicas, three processes and a NATS server; cluster, three and three servers")
	f.Uint64Var(&cfg.Seed, "seed", 0, "`NUMBER`: seed of what is killed when (default: a random one)")
	f.BoolVar(&asJSON, "json", false, "the report as one line of JSON")
	f.StringVar(&keep, "keep", "", "`DIR`: new folder for everything that is written (default: a temporary one, kept when something is wrong)")
	f.IntVar(&cfg.Agents, "agents", 4, "`N`: number of agents")
	f.IntVar(&cfg.Clients, "clients", 2, "`N`: number of clients")
	f.IntVar(&cfg.Conversations, "conversations", 16, "`N`: number of simultaneous conversations")
	f.IntVar(&cfg.LongEntries, "entries", 5000, "`N`: length of two of the conversations at the start, in entries of the log")
	f.DurationVar(&cfg.Limit, "time-limit", 0, "`TIME`: stop killing after this time (default: two seconds per kill, and a minute)")
	c.AddCommand(e.newTortured("server FILE", "Run a NATS server with a configuration file", []string{"FILE"},
		func(ctx context.Context, args []string, log *slog.Logger) error {
			return torture.Server(ctx, args[0], log)
		}))
	c.AddCommand(e.newTortured("agent DIR NUMBER NAME", "Run an agent of a run", []string{"DIR", "NUMBER", "NAME"},
		func(ctx context.Context, args []string, log *slog.Logger) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 0 {
				return usagef("%q is no agent's number", args[1])
			}
			return torture.Agent(ctx, args[0], n, args[2], log)
		}))
	c.AddCommand(e.newTortured("client DIR NUMBER", "Hold a client's conversations of a run", []string{"DIR", "NUMBER"},
		func(ctx context.Context, args []string, log *slog.Logger) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 0 {
				return usagef("%q is no client's number", args[1])
			}
			return torture.Client(ctx, args[0], n, log)
		}))
	return c
}

// newTortured returns a hidden command that a torture run starts as a separate process.
func (e *env) newTortured(use, short string, args []string, do func(ctx context.Context, args []string, log *slog.Logger) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: "  cortex torture " + use, Hidden: true, Args: typed.Exact(args...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return do(cmd.Context(), args, e.settings.logger(e.logTo(), slog.LevelInfo))
		},
	}
}

// torture runs the torture test in a folder, which it removes after a run without errors unless keep is given.
func (e *env) torture(ctx context.Context, cfg torture.Config, keep string, asJSON bool) error {
	var err error
	if cfg.Program, err = os.Executable(); err != nil {
		return err
	}
	if cfg.Folder = keep; keep == "" {
		if cfg.Folder, err = os.MkdirTemp("", "cortex-torture-"); err != nil {
			return err
		}
	} else if cfg.Folder, err = filepath.Abs(keep); err != nil { // absolute: the processes run in it
		return err
	}
	cfg.Long = min(2, cfg.Conversations)
	cfg.Logger = e.settings.logger(e.logTo(), slog.LevelError)
	shown := screen.IsTerminal(e.stderr)
	if shown {
		began := time.Now()
		cfg.Progress = func(doing string, kills int) {
			fmt.Fprintf(e.stderr, "\r\x1b[K%s, %s: %d of %d killed, %.0f s", cfg.Topology, doing, kills, cfg.Kills, time.Since(began).Seconds())
		}
	}
	report, err := torture.Run(ctx, cfg)
	if shown {
		fmt.Fprint(e.stderr, "\r\x1b[K")
	}
	if err != nil {
		if keep == "" && ctx.Err() != nil {
			os.RemoveAll(cfg.Folder) //nolint:errcheck // nobody asked for it
		}
		return err
	}
	write := report.Write
	if asJSON {
		write = report.WriteJSON
	}
	if err := write(e.stdout); err != nil {
		return err
	}
	why := report.Verdict()
	if why == "" {
		if keep == "" {
			return os.RemoveAll(cfg.Folder)
		}
		return nil
	}
	fmt.Fprintf(e.stderr, "cortex: %s; everything that was written is in %s, and --seed %d does it again\n", why, cfg.Folder, cfg.Seed)
	return errShown
}
