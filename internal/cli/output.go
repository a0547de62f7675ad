package cli

import (
	"io"
	"sync"
)

// output is a standard output that remembers what went wrong with it: a command that prints need not look, and yet does not tell its
// caller that all is well when nothing has arrived. Its methods are safe for concurrent use.
type output struct {
	w io.Writer

	mu  sync.Mutex
	err error // the first one
}

// checked returns a writer to stdout, and what becomes of it. A terminal stays what it is, since commands ask for its width.
func checked(stdout io.Writer) (io.Writer, *output) {
	o := &output{w: stdout}
	if isTerminal(stdout) {
		return stdout, o
	}
	return o, o
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
