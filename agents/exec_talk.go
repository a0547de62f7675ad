package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// Bounds of what a program leaves undone before it is started again, although it has other tasks.
const (
	maxLate   = 16 // tasks that were canceled and go on; the others go on as well, beside the next program
	maxSilent = 3  // tasks in a row whose time was over, while it said nothing at all
)

// talk is a running program that speaks lines of JSON.
type talk struct {
	*process.Program
	name   string
	single bool // it is for one task
	log    func(line string)
	out    *heard
	outbox chan []byte   // lines for the program
	gone   chan struct{} // closed when the process has ended, and everything that it wrote was read
	strays int           // lines about tasks that it does not have

	mu       sync.Mutex
	dialogs  map[string]*dialog             // by the ids of their tasks
	past     recent.Cache[string, struct{}] // the latest tasks that have ended
	late     map[string]bool                // tasks that were canceled, and which the program has not ended
	said     uint64                         // how often the program said something
	silent   int                            // tasks during whose whole time the program said nothing, since it said something
	broke    error                          // how it broke the protocol
	over     chan struct{}                  // closed when it is not to be used any more
	tired    chan struct{}                  // closed when another one is to be started for new tasks, since it goes on with too many that were canceled
	relieved bool                           // another one gets the new tasks
}

// start starts the program with the variables in env.
func (p *program) start(env []string, single bool) (*talk, error) {
	of, err := process.Start(&exec.Cmd{Path: p.path, Args: p.Argv, Dir: p.Dir, Env: append(env, "CORTEX_PROTOCOL="+jsonl.Name)}, p.log)
	if err != nil {
		return nil, err
	}
	k := &talk{
		Program: of, name: p.name, single: single, log: p.log, out: &heard{File: of.Out}, outbox: make(chan []byte, 16), gone: make(chan struct{}),
		dialogs: map[string]*dialog{}, late: map[string]bool{}, over: make(chan struct{}), tired: make(chan struct{}),
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		k.read()
	}()
	go k.write()
	go func() {
		<-k.Ended
		k.out.closeWhenIdle(read)
		_ = k.In.Close()
		<-read
		close(k.gone)
	}()
	return k, nil
}

// end ends the program as [process.Program.End] does, and waits until what it wrote was read.
func (k *talk) end(hurried bool) {
	k.End(hurried)
	<-k.gone
}

// why says how the program has ended, for the log.
func (k *talk) why() error {
	if k.broke != nil {
		return k.broke
	}
	text := "it ended"
	if err := k.Err(); err != nil {
		text = taskfile.Pathless(err).Error()
	}
	if last := k.Last(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// how says how the program has ended, for its tasks: what it said before may be about tasks of others, and is left out.
func (k *talk) how() error {
	switch err := k.Err(); {
	case k.single:
		return k.why()
	case k.broke != nil:
		return errors.New("a line is not of the protocol " + jsonl.Name)
	case err != nil:
		return taskfile.Pathless(err)
	}
	return errors.New("it ended")
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

// closeWhenIdle closes the output when read is closed, or when nothing came for process.Grace: a process that the program started may hold it open.
func (h *heard) closeWhenIdle(read <-chan struct{}) {
	poll := time.NewTicker(process.Grace)
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
			if _, err := k.In.Write(b); err != nil {
				return // it has ended, or is about to
			}
		case <-k.Ended:
			return
		}
	}
}

// send sends the program a line. It does not wait until the program reads it.
func (k *talk) send(ctx context.Context, line any) error {
	b, err := jsonl.Encode(line)
	if err != nil {
		return err
	}
	select {
	case k.outbox <- b:
		return nil
	case <-k.Ended:
		return nil // which is noticed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read reads the program's lines, and passes them to the dialogs of their tasks.
func (k *talk) read() {
	in := jsonl.NewReader(k.out)
	defer func() {
		if k.strays > 1 {
			k.log(fmt.Sprintf("%d lines about tasks that it does not have were ignored", k.strays))
		}
	}()
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
			case <-k.Ended: // what is left is little
			}
		}
		d, known := k.dialogOf(l)
		switch {
		case d != nil:
			d.push(l, n)
		case !known && k.single:
			k.breaks(&jsonl.BadLine{Begin: shorten.Line(l.Type+" "+l.ID, 120), Err: errors.New("it has no task of this id")})
			return
		case !known:
			k.stray(l.Type + " " + l.ID)
		}
	}
}

// dialogOf returns the dialog that a line belongs to, or nil; known is true when its task has just ended.
func (k *talk) dialogOf(l *jsonl.Line) (d *dialog, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said++
	k.silent = 0
	if k.single && l.ID == "" {
		for _, d := range k.dialogs {
			return d, true
		}
		return nil, true
	}
	if d := k.dialogs[l.ID]; d != nil {
		return d, true
	}
	if l.Ends() {
		delete(k.late, l.ID)
	}
	_, known = k.past.Get(l.ID)
	return nil, known
}

// stray ignores a line about a task that a program with many tasks does not have: it may have ended too long ago to be remembered, and the others must
// not fail for it.
func (k *talk) stray(about string) {
	if k.strays++; k.strays == 1 {
		k.log("a line about a task that it does not have is ignored: " + shorten.Line(about, 120))
	}
}

// fail fails the task that a bad line is about, and reports whether the program can go on: when the line says which task that is.
func (k *talk) fail(bad *jsonl.BadLine) bool {
	k.mu.Lock()
	d := k.dialogs[bad.ID]
	k.mu.Unlock()
	switch {
	case d != nil:
		d.fail(bad)
	case bad.ID != "" && !k.single:
		k.stray(bad.Begin)
	default:
		k.breaks(bad)
		return false
	}
	return true
}

// breaks ends a program that broke the protocol. A task for which it was started alone fails; others are given to other programs, for they may be of
// others than who had it say that.
func (k *talk) breaks(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broke = cmp.Or(k.broke, err)
	if !k.single {
		go k.End(true)
	}
	for _, d := range k.dialogs {
		if k.single {
			d.fail(err)
		}
	}
	k.finish()
}

// relieve has the program end when it has done the tasks that it has. It gets no others.
func (k *talk) relieve() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.relieved = true
	if len(k.dialogs) == 0 {
		k.finish()
	}
}

// stuck reports whether the program goes on with so many canceled tasks that it is not to wait for its turn to be relieved.
func (k *talk) stuck() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.late) >= 2*maxLate
}

// giveUp has a program that is relieved end before it has done the tasks that it has, which are given to others.
func (k *talk) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isOver() {
		k.log("it is ended before it has done its tasks, since the next one goes on with too many canceled tasks as well")
	}
	k.finish()
}

// failed reports, before the program is made to end, whether it was the program that ended the work, and not who relieved it of canceled tasks.
func (k *talk) failed() bool {
	select {
	case <-k.Ended:
		return true
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.broke != nil || k.silent >= maxSilent
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

// errElsewhere says that another program gets new tasks.
var errElsewhere = errors.New("another program gets the task")

// open begins the dialog of a task.
func (k *talk) open(d *dialog) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dialogs[d.id] != nil {
		return fmt.Errorf("%s has a task of this id already", k.name) // another conversation's
	}
	switch {
	case !k.single && (k.relieved || k.isOver()):
		return errElsewhere
	case k.broke != nil:
		return k.broke
	}
	k.past.Take(d.id)
	delete(k.late, d.id)
	k.dialogs[d.id], d.since = d, k.said
	return nil
}

// leave ends the dialog of a task. ended tells whether the program knows that the task has ended, and overdue that its time was over. A program that
// goes on with a canceled task is not to be used any more as soon as it has no others, or when it seems to hang. When it has too many such tasks, it is
// to be relieved: whoever cancels tasks is not to end those of others.
func (k *talk) leave(d *dialog, ended, overdue bool) {
	close(d.done)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.dialogs, d.id)
	for k.past.Put(d.id, struct{}{}, 1); k.past.Len() > memoryEntries; k.past.Drop() {
	}
	if !ended {
		k.late[d.id] = true
	}
	if overdue && d.since == k.said { // tasks of one sender run out at the same moment, and the program may be at work for others
		k.silent++
	}
	switch {
	case len(k.dialogs) == 0 && (len(k.late) > 0 || k.relieved), k.silent >= maxSilent:
		k.finish()
	case len(k.late) >= maxLate:
		select {
		case <-k.tired:
		default:
			close(k.tired)
		}
	}
}
