package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what was read from the program, and not handled yet, for one task.
const (
	maxPending      = 256     // lines
	maxPendingBytes = 4 << 20 // the last line may exceed it
)

// dialog is a task that a program works on.
type dialog struct {
	k     *talk
	t     *Task
	id    string
	files *folder
	notes *questions
	given *jsonl.Task
	since uint64 // how often the program had said something when it got the task; guarded by k.mu

	done chan struct{} // closed when the task has ended
	has  chan struct{} // receives when there is a line, or a failure
	room chan struct{} // receives when a line was taken

	mu     sync.Mutex
	lines  []*jsonl.Line
	sizes  []int
	bytes  int
	failed error

	count     int             // lines
	filed     int64           // bytes of files, also of those that others have replaced: the store keeps them as long
	begun     map[string]bool // artifacts to which more can be added
	asks      map[string]bool // open requests; guarded by mu
	asking    sync.WaitGroup
	answering context.Context // of requests
	stop      context.CancelCauseFunc
}

// push adds a line. It waits while there are too many, unless the program has ended: then there are few more.
func (d *dialog) push(l *jsonl.Line, size int) {
	for {
		d.mu.Lock()
		full := len(d.lines) >= maxPending || d.bytes >= maxPendingBytes
		if full {
			select {
			case <-d.k.Ended:
				full = false
			default:
			}
		}
		if !full {
			d.lines, d.sizes, d.bytes = append(d.lines, l), append(d.sizes, size), d.bytes+size
			d.mu.Unlock()
			signal(d.has)
			return
		}
		d.mu.Unlock()
		select {
		case <-d.room:
		case <-d.done:
			return
		case <-d.k.Ended:
		}
	}
}

// signal wakes the receiver of c, which has room for one value.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fail fails the task, after the lines that came before.
func (d *dialog) fail(err error) {
	d.mu.Lock()
	if d.failed == nil {
		d.failed = fmt.Errorf("%s: %w", d.k.name, err)
	}
	d.mu.Unlock()
	signal(d.has)
}

// next returns the next line, or the failure behind the last one, or neither.
func (d *dialog) next() (*jsonl.Line, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) == 0 {
		return nil, d.failed
	}
	l := d.lines[0]
	d.bytes -= d.sizes[0]
	d.lines, d.sizes = d.lines[1:], d.sizes[1:]
	signal(d.room)
	return l, nil
}

// errLost says that a program has ended before its task.
var errLost = errors.New("the program has ended")

// run gives the program a task, and handles what it says until the task ends. The error wraps errLost when the program ends first.
func (d *dialog) run(ctx context.Context) (r *Result, err error) {
	d.done, d.has, d.room = make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	d.begun, d.asks = map[string]bool{}, map[string]bool{}
	d.answering, d.stop = context.WithCancelCause(ctx)
	if err := d.k.open(d); err != nil {
		d.stop(nil)
		return nil, err
	}
	ended, overdue := false, false
	defer func() {
		d.k.leave(d, ended, overdue)
		cause := errors.New("the task has ended")
		if errors.Is(err, errLost) {
			cause = ErrStopping // the task asks again
		}
		d.stop(cause)
		d.asking.Wait()
	}()
	if err := d.k.send(ctx, d.given); err != nil {
		ended, overdue = true, isOverdue(ctx) // it knows nothing of it, since it does not read
		if errors.As(err, new(jsonl.DepthError)) {
			err = Rejected(err)
		}
		return nil, err
	}
	r, ended, err = d.follow(ctx, ctx.Done())
	switch {
	case ended:
		return r, err
	case errors.Is(err, errLost), d.k.isOver():
		ended = true
		return nil, err
	}
	// The task ended otherwise: tell the program.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), process.Grace)
	defer cancel()
	reason := "the task has failed"
	if cause := context.Cause(ctx); cause != nil {
		reason = cause.Error()
	}
	overdue = isOverdue(ctx)
	if d.k.send(grace, &jsonl.Cancel{Type: jsonl.TypeCancel, ID: d.id, Reason: reason}) != nil {
		return nil, err
	}
	d.mu.Lock()
	d.failed = nil
	d.mu.Unlock()
	last, over, lastErr := d.follow(grace, grace.Done())
	ended = over || errors.Is(lastErr, errLost)
	overdue = overdue && !ended
	if over && lastErr == nil && ctx.Err() != nil && !last.InputRequired { // it had just finished
		return last, nil
	}
	return nil, err
}

// isOverdue reports whether ctx has ended since the time of its task was over.
func isOverdue(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// follow handles lines until one ends the task (ended), something fails, the program ends, or until is closed.
func (d *dialog) follow(ctx context.Context, until <-chan struct{}) (r *Result, ended bool, err error) {
	for {
		gone := false
		select {
		case <-d.k.gone:
			gone = true
		default:
		}
		l, err := d.next()
		switch {
		case err != nil:
			return nil, false, err
		case l != nil && l.Ends():
			r, err := d.result(l)
			return r, true, err
		case l != nil:
			if err := d.handle(ctx, l); err != nil {
				if cause := context.Cause(ctx); cause != nil {
					err = cause
				}
				return nil, false, err
			}
		case gone:
			return nil, false, fmt.Errorf("%w: %w", errLost, d.k.how())
		}
		if l != nil {
			continue
		}
		select {
		case <-d.has:
		case <-d.k.gone:
		case <-until:
			return nil, false, context.Cause(ctx)
		}
	}
}

// handle handles a line that does not end the task.
func (d *dialog) handle(ctx context.Context, l *jsonl.Line) error {
	if d.count++; d.count > jsonl.MaxLines {
		return fmt.Errorf("%s wrote more than %d lines about this task", d.k.name, jsonl.MaxLines)
	}
	switch l.Type {
	case jsonl.TypeProgress:
		d.t.Progress(l.Words())
		return nil
	case jsonl.TypeText:
		d.t.Stream(l.Words())
		return nil
	case jsonl.TypeArtifact:
		return d.artifact(l)
	case jsonl.TypeFile:
		return d.file(ctx, l)
	}
	return d.ask(l)
}

func (d *dialog) artifact(l *jsonl.Line) error {
	parts, err := partsOf(l)
	if err != nil {
		return err
	}
	u := &a2a.TaskArtifactUpdateEvent{
		Artifact: &a2a.Artifact{Name: l.Name, Description: l.Description, Parts: parts}, Append: l.Append && d.begun[l.Name], LastChunk: !l.Append,
	}
	if err := d.t.Update(u); err != nil {
		return err
	}
	if l.Append && l.Words() != "" {
		d.begun[l.Name] = true
	} else if !l.Append {
		delete(d.begun, l.Name)
	}
	return nil
}

// partsOf returns the text and the data of a line.
func partsOf(l *jsonl.Line) (parts a2a.ContentParts, err error) {
	if l.Words() != "" {
		parts = append(parts, a2a.NewTextPart(l.Words()))
	}
	if l.Data != nil {
		v, err := transport.DecodeValue(l.Data)
		if err != nil {
			return nil, fmt.Errorf("the data: %w", err)
		}
		parts = append(parts, a2a.NewDataPart(v))
	}
	return parts, nil
}

// file adds a file in the task's folder to the result.
func (d *dialog) file(ctx context.Context, l *jsonl.Line) error {
	if d.files.dir == "" {
		return fmt.Errorf("%s: there is no folder for files", shorten.Line(l.Path, 256))
	}
	path := l.Path
	if filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Rel(d.files.out(), path); err != nil {
			return fmt.Errorf("%s: it is not in the folder of the task", shorten.Line(l.Path, 256))
		}
	}
	if !filepath.IsLocal(path) {
		return fmt.Errorf("%s: it is not in the folder of the task", shorten.Line(l.Path, 256))
	}
	root, err := d.files.root.OpenRoot(filepath.Base(d.files.out()))
	if err != nil {
		return fmt.Errorf("%s: %w", shorten.Line(l.Path, 256), taskfile.Pathless(err))
	}
	defer root.Close()
	r, err := document.OpenRegularIn(ctx, root, path)
	if err != nil {
		return fmt.Errorf("%s: %w", shorten.Line(l.Path, 256), taskfile.Pathless(err))
	}
	defer r.Close()
	if d.filed += r.Info().Size(); d.filed > maxTaskFiles {
		return fmt.Errorf("%s: %w: the files of the result, and those that they replace, have more than %d bytes together", shorten.Line(l.Path, 256), transport.ErrTooLarge, int64(maxTaskFiles))
	}
	name := cmp.Or(l.Name, filepath.Base(path))
	return d.t.AddFile(ctx, transport.FileName(name, l.MediaType, 1), l.MediaType, r)
}

// ask asks others, and sends the program their answer.
func (d *dialog) ask(l *jsonl.Line) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.asks[l.Ask]:
		return fmt.Errorf("%s asked twice as %q", d.k.name, shorten.Line(l.Ask, 64))
	case len(d.asks) >= jsonl.MaxAsks:
		return fmt.Errorf("%s asked for more than %d things at a time", d.k.name, jsonl.MaxAsks)
	}
	r := Request{Text: l.Words(), Agent: l.Agent, Skill: l.Skill}
	if l.Input != nil {
		var err error
		if r.Input, err = transport.DecodeValue(l.Input); err != nil {
			return fmt.Errorf("the input: %w", err)
		}
	}
	d.asks[l.Ask] = true
	d.asking.Go(func() {
		answer, err := d.t.Ask(d.answering, r)
		if d.answering.Err() != nil {
			return // nobody waits for it
		}
		reply := d.reply(l.Ask, answer, err)
		d.mu.Lock()
		delete(d.asks, l.Ask)
		d.mu.Unlock()
		err = d.k.send(d.answering, reply) // fails when nobody waits for it
		if errors.As(err, new(jsonl.DepthError)) {
			_ = d.k.send(d.answering, d.reply(l.Ask, nil, fmt.Errorf("the answer cannot be given: %w", err)))
		}
	})
	return nil
}

// reply returns the line for an answer.
func (d *dialog) reply(ask string, answer *a2a.Message, err error) *jsonl.Reply {
	r := &jsonl.Reply{Type: jsonl.TypeReply, ID: d.id, Ask: ask}
	if err != nil {
		r.Failed, r.Text = true, strings.TrimPrefix(err.Error(), ErrAsk.Error()+": ")
		return r
	}
	said := &Task{Tenant: d.t.Tenant, Message: answer, agent: d.t.agent}
	r.Text, r.Data = said.Text(), said.Input()
	for _, f := range said.Files() {
		path, err := d.files.add(d.answering, f)
		if err != nil {
			r.Text += "\n[" + err.Error() + "]"
			continue
		}
		r.Files = append(r.Files, jsonl.File{Name: f.Name, Type: f.Type, Size: f.Size, Path: path})
	}
	return r
}

// result returns what ends the task.
func (d *dialog) result(l *jsonl.Line) (*Result, error) {
	switch l.Type {
	case jsonl.TypeInputRequired:
		if err := d.notes.asked(d.t, d.given, l); err != nil {
			return nil, err
		}
		return InputRequired(l.Words()), nil
	case jsonl.TypeRejected:
		return nil, Rejected(errors.New(l.Words()))
	case jsonl.TypeError:
		return nil, errors.New(l.Words())
	}
	parts, err := partsOf(l)
	if len(parts) == 0 {
		parts = d.t.streamed()
	}
	return &Result{Parts: parts}, err
}

// begin returns the line that gives a program a task, and the folder with its files.
func begin(ctx context.Context, t *Task, notes *questions) (files *folder, given *jsonl.Task, err error) {
	if files, err = newFolder(t); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			files.remove()
		}
	}()
	if err := files.fill(ctx, t); err != nil {
		return files, nil, err
	}
	given = &jsonl.Task{
		Type: jsonl.TypeTask, Version: jsonl.Version, ID: string(t.ID), Context: t.ContextID, Skill: t.Skill, Text: t.Text(), Input: t.Input(),
		Delivery: max(t.Delivery, 1), Traceparent: t.Traceparent, Tracestate: t.Tracestate,
	}
	if t.Message != nil {
		given.Parts = files.located(t.Message.Parts, func(*a2a.Part) bool { return true })
	}
	for _, f := range t.Files() {
		path := files.paths[f.part]
		given.Files = append(given.Files, jsonl.File{Name: f.Name, Type: f.Type, Size: f.Size, Path: path})
	}
	if files.dir != "" {
		given.Folder = files.out()
	}
	if !t.Deadline.IsZero() {
		given.Deadline = t.Deadline.Format(time.RFC3339Nano)
	}
	return files, given, notes.replied(t, given)
}

// startOver forgets what a lost program has shown of the task's result.
func (t *Task) startOver() {
	t.mu.Lock()
	t.artifacts, t.bytes, t.text, t.asked = nil, 0, nil, nil
	t.mu.Unlock()
	if t.live != nil {
		t.live.startOver()
	}
}

// emptied removes what a lost program has left in the folder.
func (f *folder) emptied() error {
	if f.dir == "" {
		return nil
	}
	out := filepath.Base(f.out())
	if err := f.root.RemoveAll(out); err != nil {
		return err
	}
	err := f.root.Mkdir(out, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
