package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/process"
)

// Bounds of the lines on standard error that are passed on.
const (
	logRate  = 50 // per second
	logBurst = 200
)

// talk is a running program that speaks lines of JSON.
type talk struct {
	name   string
	single bool // it is for one task
	cmd    *exec.Cmd
	mark   string
	in     *os.File
	out    *heard
	stderr *lines
	outbox chan []byte // lines for the program

	exited chan struct{} // closed when the process has ended
	gone   chan struct{} // closed when, moreover, everything that it wrote was read
	err    error         // of Wait; set before exited is closed
	ending sync.Once

	mu      sync.Mutex
	dialogs map[string]*dialog // by the ids of their tasks
	past    memory[struct{}]   // tasks that have ended
	late    map[string]bool    // tasks that were canceled, and which the program has not ended
	broke   error              // how it broke the protocol
	over    chan struct{}      // closed when it is not to be used any more
}

// start starts the program with the variables in env.
func (p *program) start(env []string, single bool) (*talk, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	pace := rate.NewLimiter(logRate, logBurst)
	k := &talk{
		name: p.name, single: single, mark: process.NewMark(), in: inWrite, out: &heard{File: outRead}, outbox: make(chan []byte, 16),
		exited: make(chan struct{}), gone: make(chan struct{}),
		dialogs: map[string]*dialog{}, late: map[string]bool{}, over: make(chan struct{}),
		stderr: &lines{each: func(line string) {
			if p.Log != nil && pace.Allow() {
				p.Log(line)
			}
		}},
	}
	k.cmd = &exec.Cmd{
		Path: p.path, Args: p.Argv, Dir: p.Dir, Stdin: inRead, Stdout: outWrite, Stderr: k.stderr, WaitDelay: endGrace,
		Env: append(env, "CORTEX_PROTOCOL="+jsonl.Name, process.MarkVar+"="+k.mark),
	}
	process.Isolate(k.cmd)
	started := make(chan error)
	go func() {
		// On Linux the program dies with the thread that started it, so the thread must live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := k.cmd.Start()
		started <- err
		if err == nil {
			k.err = k.cmd.Wait()
			process.KillGroup(k.cmd.Process.Pid) // its children are of no use without it
			process.KillAll(k.cmd.Process.Pid, k.mark)
			k.stderr.flush()
			close(k.exited)
		}
	}()
	err = <-started
	_ = errors.Join(inRead.Close(), outWrite.Close()) // the program has its own copies
	if err != nil {
		_ = errors.Join(inWrite.Close(), outRead.Close())
		return nil, fmt.Errorf("%s cannot be started: %w", p.name, pathless(err))
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		k.read()
	}()
	go k.write()
	go func() {
		<-k.exited
		k.out.closeWhenIdle(read)
		_ = k.in.Close()
		<-read
		close(k.gone)
	}()
	return k, nil
}

// end ends the program and all processes that it started, and waits for it. The program has a moment to end by itself, unless it is hurried.
func (k *talk) end(hurried bool) {
	k.ending.Do(func() {
		_ = k.in.Close() // asks it to exit
		if hurried || !k.await(endGrace) {
			_ = process.Terminate(k.cmd.Process, k.mark)
			k.await(endGrace)
		}
		process.KillAll(k.cmd.Process.Pid, k.mark)
		process.KillGroup(k.cmd.Process.Pid)
	})
	<-k.gone
}

// await reports whether the program has ended within a time.
func (k *talk) await(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-k.exited:
		return true
	case <-timer.C:
		return false
	}
}

// why says how the program has ended.
func (k *talk) why() error {
	if k.broke != nil {
		return k.broke
	}
	text := "it ended"
	if k.err != nil {
		text = pathless(k.err).Error()
	}
	if last := k.stderr.tail(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// heard is the program's standard output. It knows whether somebody is reading.
type heard struct {
	*os.File
	reads atomic.Uint64 // odd: in a read
}

// Read implements [io.Reader].
func (h *heard) Read(b []byte) (int, error) {
	h.reads.Add(1)
	defer h.reads.Add(1)
	return h.File.Read(b)
}

// closeWhenIdle closes the output when read is closed, or when nothing came for endGrace: a process that the program started may hold it open.
func (h *heard) closeWhenIdle(read <-chan struct{}) {
	poll := time.NewTicker(endGrace)
	defer poll.Stop()
	for last := uint64(0); ; {
		select {
		case <-read:
			_ = h.Close()
			return
		case <-poll.C:
			if n := h.reads.Load(); n == last && n%2 == 1 {
				_ = h.Close() // ends the read
			} else {
				last = n
			}
		}
	}
}

// write writes the lines of the outbox.
func (k *talk) write() {
	for {
		select {
		case b := <-k.outbox:
			if _, err := k.in.Write(b); err != nil {
				return // it has ended, or is about to
			}
		case <-k.exited:
			return
		}
	}
}

// send sends the program a line. It does not wait until the program reads it.
func (k *talk) send(ctx context.Context, line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	select {
	case k.outbox <- append(b, '\n'):
		return nil
	case <-k.exited:
		return nil // which is noticed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read reads the program's lines, and passes them to the dialogs of their tasks.
func (k *talk) read() {
	in := jsonl.NewReader(k.out)
	pace := rate.NewLimiter(jsonl.MaxRate, 2*jsonl.MaxRate)
	for {
		l, n, err := in.Read()
		var bad *jsonl.BadLine
		switch {
		case errors.As(err, &bad):
			if !k.fail(bad) {
				return
			}
			continue
		case err != nil:
			return
		}
		if d := pace.Reserve().Delay(); d > 0 {
			select {
			case <-time.After(d):
			case <-k.exited: // what is left is little
			}
		}
		d, err := k.dialogOf(l)
		switch {
		case err != nil:
			k.breaks(err)
			return
		case d != nil:
			d.push(l, n)
		}
	}
}

// dialogOf returns the dialog that a line belongs to; nil when its task has ended.
func (k *talk) dialogOf(l *jsonl.Line) (*dialog, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.single && l.ID == "" {
		for _, d := range k.dialogs {
			return d, nil
		}
		return nil, nil
	}
	if d := k.dialogs[l.ID]; d != nil {
		return d, nil
	}
	if _, ok := k.past.Get(taskKey(l.ID)); ok {
		if l.Ends() {
			delete(k.late, l.ID)
		}
		return nil, nil
	}
	return nil, &jsonl.BadLine{Begin: line(l.Type+" "+l.ID, 120), Err: errors.New("it has no task of this id")}
}

// fail fails the task that a bad line is about, and reports whether the program can go on: when the line says which task that is.
func (k *talk) fail(bad *jsonl.BadLine) bool {
	k.mu.Lock()
	d := k.dialogs[bad.ID]
	k.mu.Unlock()
	if d == nil {
		k.breaks(bad)
		return false
	}
	d.fail(bad)
	return true
}

// breaks fails all tasks of a program that broke the protocol.
func (k *talk) breaks(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broke == nil {
		k.broke = err
	}
	for _, d := range k.dialogs {
		d.fail(err)
	}
	k.finish()
}

// finish marks the program as one that is not to be used any more; k.mu is held.
func (k *talk) finish() {
	select {
	case <-k.over:
	default:
		close(k.over)
	}
}

// isOver reports whether the program is not to be used any more.
func (k *talk) isOver() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}

// open begins the dialog of a task.
func (k *talk) open(d *dialog) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dialogs[d.id] != nil {
		return fmt.Errorf("%s has a task of this id already", k.name) // another conversation's
	}
	if k.broke != nil {
		return k.broke
	}
	k.past.Take(taskKey(d.id))
	delete(k.late, d.id)
	k.dialogs[d.id] = d
	return nil
}

// leave ends the dialog of a task. ended tells whether the program knows that the task has ended: one that goes on with a canceled task is ended
// as soon as it has no others.
func (k *talk) leave(d *dialog, ended bool) {
	close(d.done)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.dialogs, d.id)
	k.past.put(taskKey(d.id), struct{}{}, len(d.id))
	if !ended {
		k.late[d.id] = true
	}
	if len(k.dialogs) == 0 && len(k.late) > 0 {
		k.finish()
	}
}
