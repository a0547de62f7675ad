// Package keycommand gets tokens from a program that knows how to get them, such as `az`, `gcloud`, or a script: the token, or JSON with it, is the
// program's standard output. Tokens are kept until shortly before they expire.
package keycommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cortex-orchestrator/cortex/internal/process"
)

const (
	// maxOutput bounds the output of the program, in bytes.
	maxOutput = 64 << 10
	// maxTime bounds a run of the program.
	maxTime = 30 * time.Second
	// margin is how long before its end a token is replaced. It is short, since programs with a cache of their own return the same token until then.
	margin = time.Minute
	// usual is how long a token is used that does not tell when it expires.
	usual = 5 * time.Minute
)

// Options describe the program.
type Options struct {
	Argv []string // the program and its arguments; no shell reads them
	Dir  string   // where it runs; "" is the current folder
	// Now returns the time; nil is time.Now.
	Now func() time.Time
	// Limit bounds a run; 0 is 30 seconds.
	Limit time.Duration
}

// Source runs the program when a token is needed. It can be used concurrently; one run serves all callers.
type Source struct {
	o      Options
	flight singleflight.Group

	mu    sync.Mutex
	token string
	until time.Time // when it has to be replaced
}

// New returns a source. It runs nothing.
func New(o Options) *Source {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Limit = cmp.Or(o.Limit, maxTime)
	return &Source{o: o}
}

// Check returns why the program cannot be run, as far as the file system tells.
func (s *Source) Check() error {
	_, err := process.Find(s.o.Argv[0], s.o.Dir)
	return err
}

// Token returns a token that has not expired, and is not refused, unless the program returns that one again. When ctx ends, Token returns, and the
// program goes on for others. Errors have the last line of the program's standard error, and nothing of its output.
func (s *Source) Token(ctx context.Context, refused string) (string, error) {
	if token, ok := s.kept(refused); ok {
		return token, nil
	}
	done := s.flight.DoChan("", func() (any, error) {
		if token, ok := s.kept(refused); ok { // of a run that has just ended
			return token, nil
		}
		began := s.o.Now()
		out, err := s.run(context.WithoutCancel(ctx))
		if err != nil {
			return "", err
		}
		token, expires, err := parse(out, began)
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.name(), err)
		}
		s.keep(token, expires, began)
		return token, nil
	})
	select {
	case r := <-done:
		token, _ := r.Val.(string)
		return token, r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *Source) kept(refused string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, s.token != "" && s.token != refused && s.o.Now().Before(s.until)
}

// keep stores a token that the program gave for a run that began then.
func (s *Source) keep(token string, expires, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.until = token, began.Add(usual)
	if !expires.IsZero() {
		s.until = expires.Add(-min(margin, expires.Sub(began)/4)) // of a short life, too, most is used
	}
}

// name is the program's name for errors: arguments may be secret.
func (s *Source) name() string { return filepath.Base(s.o.Argv[0]) }

// errFlood ends a program that writes too much.
var errFlood = fmt.Errorf("it wrote more than %d bytes", maxOutput)

// run runs the program and returns its output.
func (s *Source) run(ctx context.Context) (string, error) {
	path, err := process.Find(s.o.Argv[0], s.o.Dir)
	if err != nil {
		return "", err
	}
	timed, stop := context.WithTimeout(ctx, s.o.Limit)
	defer stop()
	running, end := context.WithCancelCause(timed)
	defer end(nil)

	// On Linux the program dies with the thread that starts it, so the thread must live as long as the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := &output{full: func() { end(errFlood) }}
	said := &process.Lines{Each: func(string) {}}
	mark := process.NewMark()
	cmd := exec.CommandContext(running, path, s.o.Argv[1:]...)
	cmd.Args[0], cmd.Dir, cmd.Env = s.o.Argv[0], s.o.Dir, append(os.Environ(), process.MarkVar+"="+mark)
	cmd.Stderr, cmd.WaitDelay = said, process.Grace
	read, err := process.NewOutput(cmd)
	if err != nil {
		return "", fmt.Errorf("%s cannot be started: %w", s.name(), err)
	}
	defer read.Close()
	process.Isolate(cmd)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s cannot be started: %w", s.name(), err)
	}
	read.Copy(out)
	err = cmd.Wait()
	if running.Err() == nil {
		read.Await(err)
	}
	process.KillGroup(cmd.Process.Pid) // what it started is of no use without it
	process.KillAll(cmd.Process.Pid, mark)
	read.Close()
	said.Flush()
	switch cause := context.Cause(running); {
	case errors.Is(cause, errFlood):
		return "", fmt.Errorf("%s: %w", s.name(), errFlood)
	case errors.Is(cause, context.DeadlineExceeded):
		return "", s.failed(said, fmt.Errorf("it gave no token within %v: %w", s.o.Limit, context.DeadlineExceeded))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", s.failed(said, err)
	}
	return out.text.String(), nil
}

// failed returns the error of a run, with the last line that the program wrote about it.
func (s *Source) failed(said *process.Lines, err error) error {
	tail := said.Tail()
	if last := tail[strings.LastIndexByte(tail, '\n')+1:]; last != "" {
		return fmt.Errorf("%s: %w: %s", s.name(), err, last)
	}
	return fmt.Errorf("%s: %w", s.name(), err)
}

// output keeps what a program writes, up to the bound.
type output struct {
	text strings.Builder
	full func()
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	if o.text.Len()+len(b) > maxOutput {
		o.full()
		return len(b), nil
	}
	return o.text.Write(b)
}
