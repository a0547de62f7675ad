package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherWords are words of other programs for what commands do.
var otherWords = map[string][]string{
	"serve": {"start", "run", "server", "daemon", "up"}, "doctor": {"status", "check", "health", "diagnose"}, "tasks": {"ps", "jobs", "top"},
	"llm": {"models", "model", "provider", "providers"}, "chat": {"repl", "talk", "shell", "interactive"}, "ask": {"query", "say", "question"},
	"auth": {"login", "keys", "users"}, "config": {"settings", "set", "configure"}, "init": {"setup", "create", "new"},
	"history": {"show", "view", "get", "cat", "open"}, "delete": {"remove", "rm", "del", "erase"}, "cancel": {"stop", "kill", "abort"},
	"list": {"ls"}, "agents": {"ls"}, "remove": {"rm", "delete", "del"}, "conversations": {"logs", "threads"},
}

// meant returns the command below c that word is probably a misspelling of, or "".
func meant(c *cobra.Command, word string) string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			names = append(names, sub.Name())
		}
	}
	near := nearest(word, names)
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

// subcommands lists the names of the commands below c: "a, b or c".
func subcommands(c *cobra.Command) string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// nearest returns the name that word is probably a misspelling of, or "".
func nearest(word string, names []string) string {
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

// textNotFlag returns a text, such as "-40 C in F", that was taken for the unknown flag of err; "" when it may be a flag. No flag has a blank or begins
// with a digit.
func textNotFlag(err error) string {
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

// flagHint returns what to do about a flag that c does not have.
func flagHint(c *cobra.Command, err error) string {
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
	if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Sprintf("did you mean --%s? %s", near, lists)
	}
	return lists
}
