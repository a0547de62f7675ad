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

// meant returns the command below c that word is probably a misspelling of, or "".
func meant(c *cobra.Command, word string) string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			names = append(names, sub.Name())
		}
	}
	if near := nearest(word, names); near != "" {
		if sub, _, err := c.Find([]string{near}); err == nil && sub.IsAdditionalHelpTopicCommand() {
			near = "help " + near
		}
		return fmt.Sprintf("did you mean `%s %s`?", c.CommandPath(), near)
	}
	return ""
}

// nearest returns the name that word is probably a misspelling of, or "".
func nearest(word string, names []string) string {
	best, at := "", 1+min(2, len(word)/2) // the distance that is too far; smaller for short words
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
