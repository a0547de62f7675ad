package repl

import "errors"

var (
	// ErrFailed is returned by Ask and Pipe when the answer reports a failure. The answer was written nevertheless.
	ErrFailed = errors.New("the request failed")
	// ErrInterrupted is returned by Run when the user left with Ctrl-C. The customary exit status is 130.
	ErrInterrupted = errors.New("interrupted")
)
