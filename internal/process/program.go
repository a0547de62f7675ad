package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Grace is the time that a program has to end: after its input was closed, and after SIGTERM. It is also how long its standard error is read after
// its end, while a process that it started still holds the pipe open.
const Grace = 2 * time.Second

// Bounds of the lines on standard error that are passed on.
const (
	logRate  = 50 // per second
	logBurst = 200
	leftEach = 10 * time.Second // between two lines that say how many were left out
)

// Program is a program that runs, with pipes for its standard input and output.
type Program struct {
	In, Out *os.File
	Ended   chan struct{} // closed when the process has ended

	cmd    *exec.Cmd
	mark   string
	stderr *Lines
	err    error // of Wait; set before Ended is closed
	ending sync.Once
}

// Start starts cmd, whose Path, Args, Dir and Env are set, in a process group of its own, which ends with it. each is called with the lines of its
// standard error, unless there are very many. [Program.End] has to be called.
func Start(cmd *exec.Cmd, each func(line string)) (*Program, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	pace, tells, left := rate.NewLimiter(logRate, logBurst), rate.NewLimiter(rate.Every(leftEach), 1), 0
	tell := func() {
		if left > 0 {
			each(fmt.Sprintf("[%d lines of its standard error were left out until here: it writes more than %d in a second]", left, logRate))
			left = 0
		}
	}
	p := &Program{In: inWrite, Out: outRead, Ended: make(chan struct{}), cmd: cmd, mark: NewMark(), stderr: &Lines{Each: func(line string) {
		if !pace.Allow() {
			left++
			return
		}
		if left > 0 && tells.Allow() {
			tell()
		}
		each(line)
	}}}
	cmd.Env = append(cmd.Env, MarkVar+"="+p.mark)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = inRead, outWrite, p.stderr, Grace
	Isolate(cmd)
	started := make(chan error)
	go func() {
		// On Linux the program dies with the thread that started it, so the thread must live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			p.kill() // its children are of no use without it
			p.stderr.Flush()
			tell()
			close(p.Ended)
		}
	}()
	err = <-started
	_ = errors.Join(inRead.Close(), outWrite.Close()) // the program has its own copies
	if err != nil {
		_ = errors.Join(inWrite.Close(), outRead.Close())
		return nil, fmt.Errorf("%s cannot be started: %w", filepath.Base(cmd.Args[0]), plain(err))
	}
	return p, nil
}

// End ends the program and all processes that it started, and waits for it. The program has a moment to end by itself, unless it is hurried.
func (p *Program) End(hurried bool) {
	p.ending.Do(func() {
		_ = p.In.Close() // asks it to exit
		if hurried || !p.await(Grace) {
			_ = Terminate(p.cmd.Process, p.mark)
			p.await(Grace)
		}
		p.kill()
	})
	<-p.Ended
}

// await reports whether the program has ended within a time.
func (p *Program) await(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.Ended:
		return true
	case <-timer.C:
		return false
	}
}

// kill kills the program and what it started.
func (p *Program) kill() {
	KillGroup(p.cmd.Process.Pid)
	KillAll(p.cmd.Process.Pid, p.mark)
}

// Err returns how a program that has ended did so, nil being well.
func (p *Program) Err() error { return p.err }

// Last returns the last lines of standard error of a program that has ended.
func (p *Program) Last() string { return p.stderr.Tail() }

// Find returns the absolute path of a program that is to run in dir, or an error that says what to do.
func Find(name, dir string) (string, error) {
	if dir != "" {
		if s, err := os.Stat(dir); err != nil || !s.IsDir() {
			return "", fmt.Errorf("%s: there is no such folder to run in", dir)
		}
	}
	look := name
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		abs, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		look = abs
	}
	path, err := exec.LookPath(look)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%s: not executable: run chmod +x on it, or name its interpreter before it", name)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: there is no such file", name)
	case look != name || filepath.IsAbs(name):
		return "", fmt.Errorf("%s: cannot be run: %w", name, plain(err))
	}
	if _, serr := os.Stat(filepath.Join(dir, name)); serr == nil {
		return "", fmt.Errorf("%s: not found in PATH; to run the one in this folder, write ./%s", name, name)
	}
	return "", fmt.Errorf("%s: not found in PATH: check the name, or give the path", name)
}

// plain removes paths and the names of system calls from an error.
func plain(err error) error {
	if of, ok := errors.AsType[*exec.Error](err); ok {
		err = of.Err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return err
}
