// Package cli is the command line: it reads settings, wires the packages together and prints results. Package home hides where processes meet and
// conversations are stored; package app decides it. Models are those of package llms.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/cli/measure"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/logs"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitWaits       = 3 // for a reply
	exitRefused     = 4 // nothing was done: refused, or not understood
	exitInterrupted = 130
)

func usagef(format string, args ...any) error { return usage.Errorf(format, args...) }

// wanted describes the values of a type of flag, for errors.
var wanted = map[string]string{
	"int": "a whole number", "intSlice": "whole numbers with commas between them", "float64": "a number",
	"duration": "a duration, such as 30s or 5m", "bool": "true or false", "copies": "from 1 to 5",
}

// flagError describes the values that a flag accepts, instead of the error of its parser.
func flagError(err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s%w", wrong.GetFlag().Name, valueError(wrong.GetFlag(), wrong.GetValue(), wrong.Unwrap()))
	}
	return err
}

// valueError returns the error for a setting that rejected the value v with err. Its text follows the setting's name.
func valueError(f *pflag.Flag, v string, err error) error {
	what, ok := wanted[f.Value.Type()]
	if w, is := f.Value.(*word); is {
		what, ok = w.wanted(), true
	}
	if ok {
		return fmt.Errorf(" %q: it is %s", v, what)
	}
	return fmt.Errorf(": %w", err)
}

// env is the environment of a command.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *logs.Patient // to stderr
	settings       settings
	interrupted    func() bool // reports whether the process was asked to end
}

// forAgent returns a copy for one of several agents of this process: each sets its own credentials, and what it learns of its Cortex when it joins.
func (e *env) forAgent() *env {
	one, node := *e, *e.settings.node
	one.settings.node = &node
	return &one
}

// Run runs one command line and returns the exit status. It blocks until the command is done or ctx ends.
func (p *Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stdout, out := checked(stdout, end)
	stderr = screen.OneAtATime(stderr) // a file that keeps its reader waiting is told at any time
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr, log: logs.NewPatient(stderr)}
	e.settings.program, e.settings.node, e.interrupted = p, new(nodeSettings), func() bool { return false }
	root := e.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(document.Telling(ctx, func(text string) { e.say("cortex: %s", text) }))
	if lost := out.failed(); lost != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = lost // standard output failed, which ended the command
	}
	if err == nil {
		return exitOK
	}
	var wrong usage.Error
	switch {
	case errors.Is(err, repl.ErrInterrupted), e.interrupted() && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errShown):
		return exitFailed
	case errors.Is(err, errWaits), errors.Is(err, repl.ErrAsks):
		return exitWaits
	case errors.Is(err, repl.ErrRefused):
		return exitRefused
	case errors.As(err, &wrong):
		e.sayError(root, err)
		return exitUsage
	}
	e.sayError(root, err)
	return exitFailed
}

// endCommand matches the end of an error that may be a command, as in "what? cortex ask 'what time is it?'".
var endCommand = regexp.MustCompile("[:?] (cortex ([a-z]+)[^`]*)$")

// sayError prints an error. On a terminal a command at its end is not broken into lines, since users copy it.
func (e *env) sayError(root *cobra.Command, err error) {
	text := "cortex: " + oneLine(err)
	width := screen.Width(e.stderr)
	if at := endCommand.FindStringSubmatchIndex(text); at != nil && table.Width(text) > width && width > 0 {
		if c, _, err := root.Find([]string{text[at[4]:at[5]]}); err == nil && c != root {
			e.say("%s", text[:at[2]])
			fmt.Fprintln(e.stderr, text[at[2]:])
			return
		}
	}
	e.say("%s", text)
}

// errShown is a failure that was printed already; errWaits says that the turn waits for a reply.
var (
	errShown = errors.New("failed")
	errWaits = errors.New("a reply is waited for")
)

// oneLine formats an error in one line without control characters: it may contain external input.
func oneLine(err error) string {
	text := err.Error()
	if errors.Is(err, transport.ErrInvalid) { // the class of the error is for programs
		text = strings.ReplaceAll(strings.ReplaceAll(text, transport.ErrInvalid.Error()+": ", ""), transport.ErrTooLarge.Error()+": ", "")
	}
	return strings.Join(strings.Fields(repl.Sanitize(text)), " ")
}

func (e *env) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "cortex",
		Short: "An orchestrator for LLM agents that join at run time",
		Long: `Cortex asks an LLM which of the agents that are online should do what you ask for, sends them the work,
and answers from their results. Start with:

    cortex chat                                   talk to it
    cortex agent exec --card card.yaml -- ./prog  your program is an agent
    cortex init first                             a folder to start from`,
		Example:       "  cortex chat\n  echo 'Echo this!' | cortex chat\n  cortex ask --conversation demo 'what time is it in Tokyo?'",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       buildVersion(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: %s", args[0], cmp.Or(typed.Meant(cmd, args[0]), "`cortex help` lists them"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if text := typed.TextNotFlag(err); text != "" {
			return usagef("%.200q begins like a flag: put -- before it: %s -- %s", text, cmd.CommandPath(), shellWord(text))
		}
		return usagef("%w: %s", flagError(err), typed.FlagHint(cmd, err))
	})
	root.SetVersionTemplate(versionLine())
	root.SetUsageFunc(e.usage)
	root.SetHelpFunc(e.help)
	root.SetHelpCommand(newHelp(root))
	e.settings.common(root.PersistentFlags())
	doctor := e.newDoctor()
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "look", Title: "Look:"})
	for _, group := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{"run", []*cobra.Command{e.newChat(), e.newAsk(), e.newInit(), e.newServe(), e.newConsole(), e.newAgent(), e.newMCP(), e.newMirror(), e.newAuth()}},
		{"look", []*cobra.Command{e.newAgents(), e.newConversations(), hidden(e.newHistory()), e.newWhy(), e.newTasks(), e.newReplicas(), e.newDead(), doctor, e.newPrompt(), e.newLLM(), e.newEval(), measure.New(e.stdout, e.stderr), e.newTorture(), e.newVersion()}},
	} {
		for _, c := range group.commands {
			c.GroupID = group.id
			root.AddCommand(c)
		}
	}
	e.settings.borrow(doctor, root, "auth", "llm", "model")
	config := e.newConfig(root)
	config.GroupID = "look"
	root.AddCommand(config, newSettingsHelp(root), e.newMan())
	e.completeValues(root)
	e.settle(root)
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(renamed[name], name))
	})
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil { // for another word than a shell's name cobra's own prints the help, and succeeds
		c.Args, c.RunE = typed.Exact(), func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// renamed maps former names of flags to their names.
var renamed = map[string]string{"context": "conversation", "contexts": "conversations"}

// handleSignals ends the command's context at the first SIGINT, SIGTERM or SIGHUP, and the process at the second. In a chat on a terminal, Ctrl-C
// belongs to the chat, where it stops a turn.
func (e *env) handleSignals(cmd *cobra.Command) {
	ctx := cmd.Context()
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it is ignored
		// Never stopped: the kernel and the shell may both send SIGHUP when a terminal is closed, and the second one must not end the process at once.
		ctx, _ = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	signals := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if cmd.Name() == "chat" && e.onTerminal() {
		signals = signals[:1]
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	context.AfterFunc(ctx, stop)
	cmd.SetContext(ctx)
	e.interrupted = func() bool { return ctx.Err() != nil }
}

// hidden hides a command under its former name.
func hidden(c *cobra.Command) *cobra.Command {
	c.Hidden = true
	return c
}
