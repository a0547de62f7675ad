package cli

import (
	"io"
	"sync"
)

// output is a standard output that remembers what went wrong with it, and ends the command: one that prints need not look, and yet neither
// goes on for nobody nor tells its caller that all is well. Its methods are safe for concurrent use.
type output struct {
	w   io.Writer
	end func() // ends the command

	mu  sync.Mutex
	err error // the first one
}

// checked returns a writer to stdout, and what becomes of it. A terminal stays what it is, since commands ask for its width.
func checked(stdout io.Writer, end func()) (io.Writer, *output) {
	o := &output{w: stdout, end: end}
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
			o.end()
		}
	}
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
