package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// Output copies what a program writes to its standard output. [exec.Cmd] would do that too, but gives up what is still in the pipe when WaitDelay is
// over by the clock: that happens at once in a process that was stopped, or had no processor, in the moment in which its program ended.
type Output struct {
	read, write *os.File
	copying     bool
	done        chan struct{} // closed when all was read
}

// In how many parts Grace is waited for, and how many of them are enough for what is in the pipe already.
const (
	graceTicks = 100
	readTicks  = 5
)

// NewOutput returns the standard output of cmd, which has not started. [Output.Close] has to be called.
func NewOutput(cmd *exec.Cmd) (*Output, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = write
	return &Output{read: read, write: write, done: make(chan struct{})}, nil
}

// Copy begins to write to w, whose errors are ignored, once cmd has started.
func (o *Output) Copy(w io.Writer) {
	o.write.Close() // the program has its own
	o.copying = true
	go func() {
		defer close(o.done)
		_, _ = io.Copy(w, o.read)
	}()
}

// Await waits until all was copied, after [exec.Cmd.Wait] has returned err. When another process holds the output, it returns after about Grace in all, for
// which Wait has waited already if err is [exec.ErrWaitDelay].
func (o *Output) Await(err error) {
	ticks := time.NewTicker(Grace / graceTicks)
	defer ticks.Stop()
	most := graceTicks
	if errors.Is(err, exec.ErrWaitDelay) {
		most = readTicks
	}
	o.await(ticks.C, most)
}

// await counts ticks and does not look at the clock: a process that was stopped gets one tick for all that it has missed.
func (o *Output) await(ticks <-chan time.Time, most int) {
	for range most {
		select {
		case <-o.done:
			return
		case <-ticks:
		}
	}
}

// Close ends the copying, and waits for that if it has begun.
func (o *Output) Close() {
	o.write.Close()
	o.read.Close()
	if o.copying {
		<-o.done
	}
}
