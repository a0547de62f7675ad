package cli

import (
	"io"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/screen"
)

// output is a standard output that remembers its first write error, and ends the command with it. So commands that print need no checks, yet do not
// keep working for a reader that is gone, or report success. Its methods are safe for concurrent use.
type output struct {
	w   io.Writer
	end func() // ends the command

	mu  sync.Mutex
	err error // the first one
}

// checked wraps stdout, and returns the writer to use and its output. A terminal is returned unchanged, since commands ask for its width.
func checked(stdout io.Writer, end func()) (io.Writer, *output) {
	o := &output{w: stdout, end: end}
	if screen.IsTerminal(stdout) {
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
