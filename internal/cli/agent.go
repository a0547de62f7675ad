package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/logs"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// agentFlags are the flags of every agent command.
type agentFlags struct {
	card, spec  string
	concurrency int
	once        bool
	waits       bool // it only waits for others, whose tasks go on when it is restarted
	// before returns why the agent must not join; nil: it always may.
	before func(context.Context, transport.Transport) error
}

func (f *agentFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.card, "card", "", "`FILE`: card of the agent, YAML or JSON")
	c.Flags().StringVar(&f.spec, "spec", "", "`FILE`: AgentSpec of the agent, YAML or JSON, instead of a card")
	c.Flags().IntVar(&f.concurrency, "concurrency", 0, "`N`: number of simultaneous tasks (default: as in the card, else 8)")
	c.Flags().BoolVar(&f.once, "once", false, "do the tasks that wait, then exit")
	setting(c.Flags(), "concurrency")
}

// given reports whether there is a card to load.
func (f *agentFlags) given() bool { return f.card != "" || f.spec != "" }

// loadCard reads the card that the flags name, and prints which of its parts were ignored.
func (e *env) loadCard(ctx context.Context, f *agentFlags) (*a2a.AgentCard, error) {
	read, path, flag := agents.LoadCard, f.card, "card"
	if f.spec != "" {
		if f.card != "" {
			return nil, e.settings.wrong("card", " and %s say the same: give one of them", e.settings.called("spec"))
		}
		read, path, flag = agents.LoadSpec, f.spec, "spec"
	}
	card, warnings, err := read(ctx, path)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && e.settings.given[flag] != fromFlag { // with a flag, the user knows which file it is
		return nil, e.settings.wrong(flag, ": %w", err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("%w: `cortex agent new NAME` writes a card with a program", err)
	}
	if err != nil {
		return nil, usage.New(err)
	}
	for _, w := range warnings {
		e.say("warning: %s", w)
	}
	return card, nil
}

// execFlags are the flags of the commands that run a program.
type execFlags struct {
	agentFlags
	dir      string
	json     bool
	protocol string
	keep     bool
	timeout  time.Duration
}

func (f *execFlags) add(c *cobra.Command) {
	f.agentFlags.add(c)
	c.Flags().StringVar(&f.dir, "dir", "", "`DIR`: working directory of the program")
	c.Flags().BoolVar(&f.json, "json", false, "give the whole task as one JSON object on standard input")
	c.Flags().StringVar(&f.protocol, "protocol", "text", "`NAME`: what the program speaks, text or jsonl")
	c.Flags().BoolVar(&f.keep, "keep", false, "with --protocol jsonl: run one program that stays, and give it all tasks")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "`TIME`: time limit of the program (default: as in the card, else the task's deadline)")
	setting(c.Flags(), "card", "spec", "timeout") // not for built-in agents, which would otherwise announce themselves with the card of a program
}

func (e *env) newAgent() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use:   "agent NAME | --card FILE [-- PROGRAM [ARGS...]]",
		Short: "Run an agent and let it join",
		Long: `Run an agent: a built-in one (echo, clock, calc), or any program, as exec does. It joins the Cortex that runs on the
data folder, or on the server that --nats names, and leaves when it is interrupted. While there is none it waits, but not with
--once. With a card and no program, the agent answers with what it is asked.`,
		Example: "  cortex agent echo\n  cortex agent --card weather.yaml -- ./weather.py --units metric\n  cortex agent --spec agentspec.yaml -- ./search",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.given():
				return nil
			case len(args) > 0:
				return usagef("there is no agent %q: %s; a program needs --card FILE or --spec FILE", args[0],
					cmp.Or(typed.Meant(cmd, args[0]), "it is "+typed.Subcommands(cmd)))
			}
			return usagef("which agent? %s: `cortex agent --help` has examples", typed.Subcommands(cmd))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return e.runProgram(cmd, args, &f)
			}
			card, err := e.loadCard(cmd.Context(), &f.agentFlags)
			if err != nil {
				return err
			}
			_, echo, _ := agents.Lookup("echo")
			e.speaker()("no program is given: the agent answers with what it is asked")
			return e.runAgent(cmd.Context(), card, echo, &f.agentFlags)
		},
	}
	f.add(c)
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		words := cmd.Flags().Args()
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(words) > 0 && (cmd == c || cmd.Name() == "exec") {
			name := "--" + unknown.GetSpecifiedName()
			if unknown.GetSpecifiedShortnames() != "" {
				name = "-" + unknown.GetSpecifiedName()
			}
			return usagef("%s needs `--` before the program, if it is the program's flag: %s --card FILE -- %s %s", name, cmd.CommandPath(), shellWord(words[0]), name)
		}
		return cmd.Root().FlagErrorFunc()(cmd, err)
	})
	for _, name := range e.settings.program.builtin() {
		c.AddCommand(e.newBuiltin(name))
	}
	c.AddCommand(e.newExec(), e.newAgentMCP(), e.newAgentPersona(), e.newAgentA2A(), e.newAgentNew())
	return c
}

func (e *env) newBuiltin(name string) *cobra.Command {
	var f agentFlags
	card, handler, _ := e.settings.program.lookup(name)
	c := &cobra.Command{
		Use:     name,
		Short:   card.Description,
		Example: "  cortex agent " + name,
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.given() {
				var err error
				if card, err = e.loadCard(cmd.Context(), &f); err != nil {
					return err
				}
			}
			return e.runAgent(cmd.Context(), card, handler, &f)
		},
	}
	f.add(c)
	return c
}

func (e *env) newExec() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use:   "exec --card FILE -- PROGRAM [ARGS...]",
		Short: "Run any program as an agent",
		Long: `Run a program once for each task. The task's text is its standard input; what it prints is the result; each line on
standard error is shown as progress. A program that says something on either gets more time, up to four times as much. An exit
status other than 0 is a failure, with the last lines of standard error.

The card is a YAML or JSON file; a name is enough, a description and examples help Cortex to choose the agent:

    name: wordcount
    description: Counts the words of a text
    skills:
      - id: count
        name: Count words
        examples: ["count the words: to be or not to be"]

A skill may have input_schema and output_schema, JSON Schemas: the program then finds the task's input as JSON in the
variable CORTEX_INPUT (if under 64 KiB; with --json it is in the task), and what it prints as JSON is the result as data.
Cards of A2A 1.0 and before, and AgentSpec documents are read too.

With --protocol jsonl a program says more: it reads and writes lines of JSON, shows text as it makes it, asks you and other agents, refuses,
and is told when a task is canceled. Its standard error is its log. With --keep it is started once, gets many tasks at a time, and is
started again when it ends. ` + "`cortex agent new --lang python`" + ` or typescript writes one.`,
		Example: "  cortex agent exec --card wordcount.yaml -- wc -w\n  cortex agent exec --card weather.yaml --json -- ./weather.py\n" +
			"  cortex agent exec --card weather.yaml --protocol jsonl --keep -- ./weather.py",
		Args: func(_ *cobra.Command, args []string) error {
			if !f.given() {
				return usagef("--card is missing: a YAML file with at least `name: myagent`")
			}
			if len(args) == 0 {
				card := ""
				for flag, file := range map[string]string{"card": f.card, "spec": f.spec} {
					if file != "" && e.settings.given[flag] == fromFlag {
						card = "--" + flag + " " + file + " "
					}
				}
				return usagef("which program? cortex agent exec %s-- PROGRAM [ARGS...]", card)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.runProgram(cmd, args, &f) },
	}
	f.add(c)
	return c
}

// runProgram runs a program as an agent.
func (e *env) runProgram(cmd *cobra.Command, argv []string, f *execFlags) error {
	card, err := e.loadCard(cmd.Context(), &f.agentFlags)
	if err != nil {
		return err
	}
	if f.timeout < 0 {
		return e.settings.wrong("timeout", " %v: it must not be negative", f.timeout)
	}
	o := agents.ExecOptions{Argv: argv, Dir: f.dir, Card: card, JSON: f.json, Timeout: f.timeout}
	if e.settings.given["timeout"] == 0 {
		o.Timeout = agentcard.SpecOf(card).Limits.TaskTimeout
	}
	switch {
	case f.protocol != "text" && f.protocol != "jsonl":
		return usagef("--protocol %q: it is text or jsonl", f.protocol)
	case f.protocol == "text" && f.keep:
		return usagef("--keep needs --protocol jsonl: a program that stays has to be told which task is which")
	case f.protocol == "jsonl" && f.json:
		return usagef("--json and --protocol jsonl both say how a task is given: give one of them")
	}
	name, say := prompt.Clean(card.Name, 64), e.speaker()
	if f.protocol == "text" {
		h, err := agents.Exec(o)
		if err != nil {
			return usage.New(err)
		}
		return e.runAgent(cmd.Context(), card, newWorklog(h, name, say), &f.agentFlags)
	}
	o.Questions = datadir.Questions(e.settings.data)
	o.Log = func(line string) { say("%s: %s", name, logLine(line)) }
	if f.keep {
		return e.runKept(cmd.Context(), card, o, &f.agentFlags)
	}
	h, err := agents.ExecLines(o)
	if err != nil {
		return usage.New(err)
	}
	return e.runAgent(cmd.Context(), card, newWorklog(h, name, say), &f.agentFlags)
}

// Bounds of a line of a program's log, in characters.
const (
	maxLogged = 500
	maxIndent = 40
)

// logLine returns a line of a program's log for the terminal. It keeps the indentation, by which people read tracebacks.
func logLine(line string) string {
	rest := strings.TrimLeft(line, " \t")
	indent := strings.ReplaceAll(line[:len(line)-len(rest)], "\t", "    ")
	return indent[:min(len(indent), maxIndent)] + prompt.Clean(rest, maxLogged)
}

// runKept runs a program that stays as an agent.
func (e *env) runKept(ctx context.Context, card *a2a.AgentCard, o agents.ExecOptions, f *agentFlags) error {
	k, err := agents.Keep(o)
	if err != nil {
		return usage.New(err)
	}
	defer k.Close() // tasks may go on until runAgent returns
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return k.Run(ctx) })
	running.Go(func() error {
		err := e.runAgent(ctx, card, newWorklog(k, prompt.Clean(card.Name, 64), e.speaker()), f)
		return cmp.Or(err, errLeft) // ends Run
	})
	if err := running.Wait(); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// errLeft says that an agent has left.
var errLeft = errors.New("the agent has left")

func (e *env) runAgent(ctx context.Context, card *a2a.AgentCard, x agents.Executor, f *agentFlags) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if f.concurrency < 0 {
		return e.settings.wrong("concurrency", " %d: it must not be negative", f.concurrency)
	}
	name := prompt.Clean(card.Name, 64)
	say := e.speaker()
	told := func(line string) { say("%s", line) }
	log := e.sentencesOr(slog.LevelWarn, told)
	linkLog := log
	if !e.settings.wantsLogs() {
		linkLog = e.sentencesOr(slog.LevelError, told) // changes of the connection are printed as sentences of their own
	}
	if e.settings.agent, _ = transport.AgentID(card.Name); e.settings.agent == "" {
		e.settings.agent = card.Name // an invalid name is refused later
	}
	tracer, closed, err := e.agentTracer(ctx, e.settings.agent, log)
	if err != nil {
		return err
	}
	defer closed()
	conn := &patient{tell: func(away error) {
		switch {
		case ctx.Err() != nil: // interrupted: the agent leaves
		case away == nil:
			say("%s goes on", name)
		default:
			say("%s waits: %s", name, strings.TrimPrefix(oneLine(away), transport.ErrUnavailable.Error()+": "))
		}
	}}
	onConn := func(up bool, err error) {
		conn.connected(up)
		why := e.settings.shutOut(err)
		switch {
		case why != nil:
			end(why)
		case up:
			say("%s is connected again", name)
		case ctx.Err() != nil:
		case errors.Is(err, transport.ErrForbidden):
			say("%s is not let in: %s", name, oneLine(err))
		default:
			say("%s lost the connection and tries again until it is back", name)
		}
	}
	join := func() (*link, error) { return e.settings.awaitJoin(ctx, card.Name, linkLog, onConn, conn.tell) }
	if f.once { // no waiting: a caller that starts it repeatedly would pile up waiting processes
		join = func() (*link, error) { return e.settings.mustJoin(ctx, card.Name, linkLog, onConn) }
	}
	l, err := join()
	if err != nil && ctx.Err() != nil {
		return nil // the user interrupted it
	}
	if err != nil {
		return err
	}
	defer l.Close()
	conn.Transport = l.bus
	conn.joins = func() { say("%s joins %s · %s · Ctrl-C to leave", name, l.url, skillNames(card)) }
	if f.before != nil {
		if err := f.before(ctx, l.bus); err != nil {
			return err
		}
	}
	o := &agents.Options{Tenant: e.settings.tenant, Tracer: tracer, Concurrency: f.concurrency, Once: f.once, Logger: slog.New(logs.Lowered(log.Handler(), transport.ErrUnavailable))}
	if f.waits {
		o.Deliveries, o.Grace = -1, 2*time.Second
	}
	if w, ok := x.(worklog); ok {
		defer context.AfterFunc(ctx, func() { w.leaving(cmp.Or(o.Grace, agents.DefaultGrace)) })()
	}
	o.Forget = func(tenant, contextID string) error { return datadir.Forget(e.settings.data, tenant, contextID) }
	if c, ok := x.(interface{ Changes() <-chan agents.Change }); ok {
		o.Changes = c.Changes()
	}
	err = agents.Serve(ctx, conn.whole(), card, x, o)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause // the server no longer accepts it
	}
	if ctx.Err() != nil {
		say("%s has left", name)
		return nil
	}
	if w, ok := x.(worklog); ok && err == nil && f.once {
		say("%s has left: nothing more waits for it, %s", name, counted(int(w.done.Load()), "task")+" done")
	}
	return err
}

func skillNames(card *a2a.AgentCard) string {
	names := make([]string, 0, len(card.Skills))
	for _, s := range card.Skills {
		names = append(names, prompt.Clean(cmp.Or(s.Name, s.ID), 40))
	}
	return strings.Join(names, ", ")
}
