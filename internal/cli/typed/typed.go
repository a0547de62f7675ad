package typed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// otherWords are words of other programs for what commands do.
var otherWords = map[string][]string{
	"serve": {"start", "run", "server", "daemon", "up"}, "doctor": {"status", "check", "health", "diagnose"}, "tasks": {"ps", "jobs", "top"},
	"llm": {"models", "model", "provider", "providers"}, "chat": {"repl", "talk", "shell", "interactive"}, "ask": {"query", "say", "question"},
	"auth": {"login", "keys", "users"}, "config": {"settings", "set", "configure"}, "init": {"setup", "create", "new"},
	"history": {"show", "view", "get", "cat", "open"}, "delete": {"remove", "rm", "del", "erase"}, "cancel": {"stop", "kill", "abort"},
	"list": {"ls"}, "agents": {"ls"}, "remove": {"rm", "delete", "del"}, "conversations": {"logs", "threads"},
}

// Meant returns the command below c that word is probably a misspelling of, or "".
func Meant(c *cobra.Command, word string) string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			names = append(names, sub.Name())
		}
	}
	near := Nearest(word, names)
	for name, others := range otherWords {
		if near == "" && slices.Contains(others, word) && slices.Contains(names, name) {
			near = name
		}
	}
	if near != "" {
		if sub, _, err := c.Find([]string{near}); err == nil && sub.IsAdditionalHelpTopicCommand() {
			near = "help " + near
		}
		return fmt.Sprintf("did you mean `%s %s`?", c.CommandPath(), near)
	}
	return ""
}

// Subcommands lists the names of the commands below c: "a, b or c".
func Subcommands(c *cobra.Command) string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Nearest returns the name that word is probably a misspelling of, or "".
func Nearest(word string, names []string) string {
	best, at := "", 1+min(2, len(word)/2) // the distance that is too far; smaller for short words
	if len(word) == 4 {
		at = 2 // "quit" is not init
	}
	if len(word) > 40 {
		return ""
	}
	for _, name := range names {
		d := levenshtein.ComputeDistance(word, name)
		if len(word) > 1 && strings.HasPrefix(name, word) {
			d = 0
		} else if len(word) > 2 && sorted(word) == sorted(name) { // letters in another order, as in aks
			d = 1
		}
		if d < at {
			best, at = name, d
		}
	}
	return best
}

func sorted(word string) string { return string(slices.Sorted(slices.Values([]rune(word)))) }

// TextNotFlag returns a text, such as "-40 C in F", that was taken for the unknown flag of err; "" when it may be a flag. No flag has a blank or begins
// with a digit.
func TextNotFlag(err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	text := "--" + unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		text = "-" + short
	}
	if strings.ContainsAny(text, " \t\n") || strings.Contains("0123456789", strings.TrimLeft(text, "-")[:1]) {
		return text
	}
	return ""
}

// FlagHint returns what to do about a flag that c does not have.
func FlagHint(c *cobra.Command, err error) string {
	lists := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return lists
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Sprintf("did you mean --%s? %s", near, lists)
	}
	return lists
}

// Exact is cobra.ExactArgs with an error that names the missing argument.
func Exact(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usage.Errorf("%s is missing: cortex %s", names[len(args)], strings.TrimPrefix(cmd.UseLine(), "cortex "))
		}
		if len(args) > len(names) {
			if near := Meant(cmd, args[len(names)]); near != "" {
				return usage.Errorf("unknown command %q: %s", args[len(names)], near)
			}
			for _, page := range []string{"show", "history"} { // of what is listed
				if page == "history" && cmd.Name() != "conversations" {
					break // a measurement of bench
				}
				shows := func(c *cobra.Command) bool { return c.Name() == page && c.Use != page } // it takes one
				if len(names) == 0 && slices.ContainsFunc(cmd.Commands(), shows) {
					return usage.Errorf("unexpected argument %q: did you mean `%s %s %s`?", args[0], cmd.CommandPath(), page, prompt.ShellWord(args[0]))
				}
			}
			if cmd.HasAvailableSubCommands() && len(names) == 0 {
				return usage.Errorf("unknown command %q: `%s --help` lists them", args[0], cmd.CommandPath())
			}
			return usage.Errorf("unexpected argument %q: cortex %s", args[len(names)], strings.TrimPrefix(cmd.UseLine(), "cortex "))
		}
		return nil
	}
}
