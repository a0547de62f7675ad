// Package usage has the errors for what a user has typed or written into a file. A command that fails with one ends with another exit status than
// one that could not do what it was to do.
package usage

import (
	"errors"
	"fmt"
)

// Error is a mistake in a command line, in a setting or in the config file.
type Error struct{ err error }

// New returns err as an [Error].
func New(err error) error { return Error{err} }

// Errorf is [fmt.Errorf] for an [Error].
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

func (e Error) Error() string { return e.err.Error() }

// Unwrap returns the error of New.
func (e Error) Unwrap() error { return e.err }

// ErrEmpty is the error for an empty value, whose intention is unknown: `auth: ""` may be a template that nobody has filled in, and would run a
// server without keys.
var ErrEmpty = errors.New("it is empty: give a value, or leave it out")
