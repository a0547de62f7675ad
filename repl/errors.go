package repl

import "errors"

var (
	// ErrFailed is returned by Ask and Pipe when the answer reports a failure. The answer was written nevertheless.
	ErrFailed = errors.New("the request failed")
	// ErrRefused is returned by Ask and Pipe when the answer says that nothing was done, and why: the request was refused, or not understood. The
	// answer was written nevertheless.
	ErrRefused = errors.New("nothing was done")
	// ErrAsks is returned by Ask and Pipe when the answer is a question to the user. It was written nevertheless.
	ErrAsks = errors.New("a reply is waited for")
	// ErrInterrupted is returned by Run when the user left with Ctrl-C. The customary exit status is 130.
	ErrInterrupted = errors.New("interrupted")
)
