package cli

import (
	"errors"
	"slices"
	"strings"
)

// word is a setting with a few allowed values; the first is the default.
type word struct {
	value string
	of    []string
}

func oneOf(words ...string) word { return word{words[0], words} }

// Set implements pflag.Value.
func (w *word) Set(s string) error {
	if !slices.Contains(w.of, s) {
		return errors.New("it is " + w.wanted())
	}
	w.value = s
	return nil
}

// wanted lists the allowed values.
func (w *word) wanted() string {
	last := len(w.of) - 1
	return strings.Join(w.of[:last], ", ") + " or " + w.of[last]
}

// String implements pflag.Value.
func (w *word) String() string { return w.value }

// Type implements pflag.Value.
func (w *word) Type() string { return "word" }
