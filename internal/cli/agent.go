package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// agentFlags are the flags of every agent command.
type agentFlags struct {
	concurrency int
	once        bool
}

func (f *agentFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.concurrency, "concurrency", 0, "tasks to work on at once (default 8)")
	c.Flags().BoolVar(&f.once, "once", false, "do the tasks that wait, then exit")
}

func (e *env) newAgent() *cobra.Command {
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run an agent and let it join",
		Long: `Run an agent: a built-in one (echo, clock, calc), or any program with exec. It joins the Cortex that runs on the
data folder, or on the server that --nats names, and leaves when it is interrupted.`,
		Example: "  cortex agent echo\n  cortex agent exec --card weather.yaml -- ./weather.py --units metric",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no agent %q: it is echo, clock, calc or exec", args[0])
			}
			return usagef("which agent? echo, clock, calc or exec: `cortex agent --help` has examples")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, name := range agents.Builtin() {
		card, handler, _ := agents.Lookup(name)
		var f agentFlags
		sub := &cobra.Command{
			Use:     name,
			Short:   card.Description,
			Example: "  cortex agent " + name,
			Args:    exactArgs(),
			RunE:    func(cmd *cobra.Command, _ []string) error { return e.runAgent(cmd, card, handler, f) },
		}
		f.add(sub)
		c.AddCommand(sub)
	}
	c.AddCommand(e.newExec())
	return c
}

func (e *env) newExec() *cobra.Command {
	var f agentFlags
	var card, dir string
	var asJSON bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "exec --card FILE -- PROGRAM [ARGS...]",
		Short: "Run any program as an agent",
		Long: `Run a program once for each task. The task's text is its standard input; what it prints is the result; each line on
standard error is shown as progress. An exit status other than 0 is a failure, with the last lines of standard error.

The card is a YAML or JSON file; a name is enough, a description and examples help Cortex to choose the agent:

    name: wordcount
    description: Counts the words of a text
    skills:
      - id: count
        name: Count words
        examples: ["count the words: to be or not to be"]`,
		Example: "  cortex agent exec --card wordcount.yaml -- wc -w\n  cortex agent exec --card weather.yaml --json -- ./weather.py",
		Args: func(cmd *cobra.Command, args []string) error {
			if card == "" {
				return usagef("--card is missing: a YAML file with at least `name: myagent`")
			}
			if len(args) == 0 {
				return usagef("which program? cortex agent exec --card %s -- PROGRAM [ARGS...]", card)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ac, err := agents.LoadCard(card)
			if err != nil {
				return usageError{err}
			}
			if timeout < 0 {
				return usagef("--timeout %v: it must not be negative", timeout)
			}
			h, err := agents.Exec(agents.ExecOptions{Argv: args, Dir: dir, JSON: asJSON, Timeout: timeout})
			if err != nil {
				return usageError{err}
			}
			return e.runAgent(cmd, ac, h, f)
		},
	}
	f.add(c)
	c.Flags().StringVar(&card, "card", "", "`FILE` with the agent's card, YAML or JSON")
	c.Flags().StringVar(&dir, "dir", "", "`DIR` to run the program in")
	c.Flags().BoolVar(&asJSON, "json", false, "give the whole task as one JSON object on standard input")
	c.Flags().DurationVar(&timeout, "timeout", 0, "kill the program after this long (default: the task's deadline)")
	return c
}

func (e *env) runAgent(cmd *cobra.Command, card *a2a.AgentCard, h agents.Handler, f agentFlags) error {
	ctx := cmd.Context()
	if f.concurrency < 0 {
		return usagef("--concurrency %d: it must not be negative", f.concurrency)
	}
	name := prompt.Clean(card.Name, 64)
	log := e.settings.logger(e.stderr, slog.LevelError)
	l, err := e.settings.mustJoin(ctx, card.Name, log, func(up bool, _ error) {
		if up {
			fmt.Fprintf(e.stderr, "%s is connected again\n", name)
		} else if ctx.Err() == nil {
			fmt.Fprintf(e.stderr, "%s lost the connection and tries again until it is back\n", name)
		}
	})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(e.stderr, "%s joins %s · %s · Ctrl-C to leave\n", name, l.url, skillNames(card))
	err = agents.Serve(ctx, l.bus, card, h, &agents.Options{Tenant: e.settings.tenant, Concurrency: f.concurrency, Once: f.once, Logger: log})
	if ctx.Err() != nil {
		fmt.Fprintf(e.stderr, "%s has left\n", name)
		return nil
	}
	return err
}

func skillNames(card *a2a.AgentCard) string {
	names := make([]string, 0, len(card.Skills))
	for _, s := range card.Skills {
		name := s.Name
		if name == "" {
			name = s.ID
		}
		names = append(names, prompt.Clean(name, 40))
	}
	return strings.Join(names, ", ")
}
