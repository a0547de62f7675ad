package cli

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// completionPatience bounds the time of a completion, since the user waits for it.
const completionPatience = 2 * time.Second

// maxCompleted bounds the conversations that are offered, the latest first.
const maxCompleted = 200

// maxCompletedID bounds the length of an id that is offered, in bytes.
const maxCompletedID = 256

// offer is called with each id to offer and its description.
type offer func(id, what string)

// completeIDs offers what list finds in the running Cortex. When none runs, it offers nothing, starts nothing and prints nothing.
func (e *env) completeIDs(list func(context.Context, *backend, offer) error) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmp.Or(cmd.Context(), context.Background()), completionPatience)
		defer cancel()
		cmd.SetContext(ctx)
		e.stderr = io.Discard
		if err := e.settings.complete(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = e.withBackend(ctx, func(ctx context.Context, b *backend) error { // after an error, offer what was found until then
			return list(ctx, b, func(id, what string) {
				if isPlainWord(id) && strings.HasPrefix(id, begin) && !slices.Contains(args, id) {
					found = append(found, cobra.CompletionWithDesc(id, prompt.Clean(what, 60)))
				}
			})
		})
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// isPlainWord reports whether a shell reads an id literally: no quoting, no flag, no home folder. The scripts that cobra generates put the common
// prefix of several candidates on the command line without quoting it, and evaluate that line at the next Tab; and users choose the ids of their
// conversations.
func isPlainWord(id string) bool {
	return id != "" && len(id) <= maxCompletedID && shellWord(id) == id && !strings.ContainsAny(id[:1], "-%")
}

// first limits a completion to the first argument.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begin)
	}
}

func (e *env) completeFlag(c *cobra.Command, name string, list func(context.Context, *backend, offer) error) {
	completeBy(c, name, e.completeIDs(list))
}

func completeBy(c *cobra.Command, name string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(name, f); err != nil {
		panic(err) // there is no such flag
	}
}

func conversationIDs(ctx context.Context, b *backend, add offer) error {
	list, _, err := view.Conversations(ctx, b.reader(), maxCompleted)
	for _, info := range list {
		add(info.ContextID, info.Title)
	}
	return err
}

func agentIDs(ctx context.Context, b *backend, add offer) error {
	known, err := b.known(ctx)
	if err != nil {
		return err
	}
	for _, r := range known.Agents() {
		add(r.ID, r.Card.Description)
	}
	return nil
}

// skillIDs offers the skills of an agent; of all agents when none is named.
func skillIDs(ctx context.Context, b *backend, agent string, add offer) error {
	known, err := b.known(ctx)
	if err != nil {
		return err
	}
	for _, r := range known.Agents() {
		for i := range r.Card.Skills {
			if s := &r.Card.Skills[i]; s.ID != "" && (agent == "" || r.ID == agent) {
				add(s.ID, s.Name)
			}
		}
	}
	return nil
}

func taskIDs(ctx context.Context, b *backend, add offer) error {
	_, err := view.OpenTasks(ctx, b.reader(), func(t view.Task) bool {
		add(string(t.TaskID), t.Agent+": "+t.Text)
		return true
	})
	return err
}

func deadLetterIDs(ctx context.Context, b *backend, add offer) error {
	dead, err := b.deadLetters()
	if err != nil {
		return err
	}
	for d, err := range dead.DeadLetters(ctx, b.tenant) {
		if err != nil {
			return err
		}
		add(d.ID, d.Reason)
	}
	return nil
}

// agentStates are the values of --state.
var agentStates = []cobra.Completion{"active", "draining", "registered", "unknown", "refused"}

// completeModels offers the values of --llm, including those of the config file.
func (e *env) completeModels(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cmd.SetContext(cmp.Or(cmd.Context(), context.Background()))
	_ = e.settings.complete(cmd) // without a config file, the built-in ones
	names := slices.Sorted(maps.Keys(e.settings.endpoints()))
	return slices.DeleteFunc(names, func(name string) bool { return !isPlainWord(name) }), cobra.ShellCompDirectiveNoFileComp
}

// completeValues adds completions to all commands below c: the values of settings that have few, and no file names where no file is expected.
func (e *env) completeValues(c *cobra.Command) {
	for flag, values := range map[string]cobra.CompletionFunc{
		"llm":        e.completeModels,
		"agents":     cobra.FixedCompletions(append(e.settings.program.builtin(), none), cobra.ShellCompDirectiveNoFileComp),
		"state":      cobra.FixedCompletions(agentStates, cobra.ShellCompDirectiveNoFileComp),
		"log-format": cobra.FixedCompletions([]cobra.Completion{"text", "json"}, cobra.ShellCompDirectiveNoFileComp),
		"log-level":  cobra.FixedCompletions([]cobra.Completion{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		f := c.LocalFlags().Lookup(flag)
		if f == nil || flag == "agents" && !hasSettingMark(f) { // in other commands the flag is a file or a number
			continue
		}
		if _, ok := c.GetFlagCompletionFunc(flag); !ok {
			completeBy(c, flag, values)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if w, ok := f.Value.(*word); ok {
			completeBy(c, f.Name, cobra.FixedCompletions(w.of, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	if c.ValidArgsFunction == nil && !c.HasSubCommands() && c.Name() != "exec" {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		e.completeValues(sub)
	}
}
