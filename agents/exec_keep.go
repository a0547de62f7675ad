package agents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// keptPatience is how long a task waits for a program that is being started again, before it may have one of its own.
const keptPatience = 3 * time.Second

// mostAlone bounds the programs that are started for single tasks, beside the two that have many.
const mostAlone = 4

// Kept is an [Executor] that has one program do all tasks, see [Keep].
type Kept struct {
	p       *program
	notes   *questions
	changes chan Change
	alone   chan struct{} // has one for each program of a single task

	mu     sync.Mutex
	talk   *talk         // nil while the program does not run
	up     chan struct{} // closed when talk is set
	old    *talk         // goes on with its tasks beside talk
	closed bool
}

var _ Executor = (*Kept)(nil)

// Keep returns an Executor for a program that stays and gets all tasks, many at a time, in lines of JSON, as package jsonl says. [Kept.Run] runs the
// program, and starts it again with growing pauses when it ends; meanwhile the agent is draining.
//
// A task that the program had when it ended is done again, with a higher delivery, up to [MaxDeliveries] times, as when the agent itself is lost. It has a
// program of its own then, four at a time, since it may be the task of somebody else at which the first one has ended; so has a task that comes during a
// long pause. When its skill is to be done once by the card, the task fails instead, in both cases. A program that goes on with a canceled task is started again as soon as it has no other tasks; one that has 16 such
// tasks gets no more, and ends when it has done the others, beside the next one, or when that one has 32 such tasks. One that says nothing while the time
// of three tasks in a row runs out is started again at once.
func Keep(o ExecOptions) (*Kept, error) {
	p, err := newProgram(o)
	if err != nil {
		return nil, err
	}
	return &Kept{p: p, notes: openQuestions(o.Questions, p.log), changes: make(chan Change, 1), alone: make(chan struct{}, mostAlone), up: make(chan struct{})}, nil
}

// Changes returns the channel for [Options].
func (k *Kept) Changes() <-chan Change { return k.changes }

// tell sends a change, in place of one that was not received yet.
func (k *Kept) tell(c Change) {
	select {
	case <-k.changes:
	default:
	}
	k.changes <- c // Run is the only sender
}

// Run runs the program until ctx ends, and then leaves it to [Kept.Close]: tasks may go on. It returns an error when the program cannot be started at
// all.
func (k *Kept) Run(ctx context.Context) error {
	restarts := process.NewRestarts()
	for first := true; ; first = false {
		began := time.Now()
		t, err := k.start(false)
		switch {
		case err != nil && first:
			return err
		case err == nil:
			if !k.set(t) {
				t.end(true)
				return nil
			}
			if !first {
				k.p.log("it runs again")
				k.tell(Change{})
			}
			if t = k.attend(ctx, t); t == nil {
				return nil
			}
			failed := t.failed()
			k.set(nil)
			k.tell(Change{Draining: true})
			t.end(true)
			if err = t.why(); !failed { // whoever cancels tasks is not to have others wait
				k.p.log("it is started again, since it goes on with canceled tasks")
				continue
			}
		}
		pause := restarts.Pause(time.Since(began))
		k.p.log(fmt.Sprintf("it is started again in %v: %v", pause.Round(100*time.Millisecond), err))
		if rest.For(ctx, pause) != nil {
			return nil
		}
	}
}

// start starts the program, for one task or for many.
func (k *Kept) start(single bool) (*talk, error) {
	return k.p.start(append(os.Environ(), k.p.Env...), single)
}

// attend waits until the program that gets the tasks, first t, is not to be used any more, and returns it; nil: ctx has ended, or k is closed. Meanwhile
// it starts another one in the place of one that is to be relieved. When the one before that has not ended by then, it has to as soon as its successor has
// twice as many canceled tasks: so there are two at most, and they go on with no more than these.
func (k *Kept) attend(ctx context.Context, t *talk) *talk {
	pace := time.NewTicker(process.Grace)
	defer pace.Stop()
	for {
		select {
		case <-t.gone:
			return t
		case <-t.over:
			return t
		case <-ctx.Done():
			return nil
		case <-t.tired:
			k.mu.Lock()
			old := k.old
			k.mu.Unlock()
			switch {
			case old == nil:
				next, err := k.start(false)
				switch {
				case err != nil:
					k.p.log(fmt.Sprintf("it goes on with canceled tasks, and another one cannot be started: %v", err))
				case !k.set(next):
					next.end(true)
					return nil
				default:
					k.p.log("it goes on with canceled tasks: another one gets the next tasks")
					k.retire(t)
					t = next
					continue
				}
			case t.stuck():
				old.giveUp()
			}
			select {
			case <-pace.C:
			case <-t.gone:
			case <-t.over:
			case <-ctx.Done():
			}
		}
	}
}

// retire ends a program when it has done its tasks.
func (k *Kept) retire(t *talk) {
	k.mu.Lock()
	k.old = t
	k.mu.Unlock()
	t.relieve()
	go func() { // until Close at the latest
		select {
		case <-t.gone:
		case <-t.over:
		}
		failed := t.failed()
		t.end(true)
		if failed {
			k.p.log(fmt.Sprintf("the one that went on with canceled tasks has failed: %v", t.why()))
		}
		k.mu.Lock()
		k.old = nil
		k.mu.Unlock()
	}()
}

// set sets the running program, nil when there is none. It returns false when k is closed.
func (k *Kept) set(t *talk) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed && t != nil {
		return false
	}
	if k.talk != nil {
		k.up = make(chan struct{})
	}
	if k.talk = t; t != nil {
		close(k.up)
	}
	return true
}

// Close ends the program and all processes that it started.
func (k *Kept) Close() {
	k.mu.Lock()
	all := []*talk{k.talk, k.old}
	k.closed = true
	k.mu.Unlock()
	var ending sync.WaitGroup
	for _, t := range all {
		if t != nil {
			ending.Go(func() { t.end(false) })
		}
	}
	ending.Wait()
}

// await returns the running program; nil when the task has a place for one of its own instead, for which it waits when the pause before the next start
// is long: those grow, and whose tasks end a program may not have those of others fail.
func (k *Kept) await(ctx context.Context) (*talk, error) {
	patience := time.NewTimer(keptPatience)
	defer patience.Stop()
	var alone chan<- struct{}
	for {
		k.mu.Lock()
		t, up := k.talk, k.up
		k.mu.Unlock()
		poll := (<-chan time.Time)(nil)
		if t != nil {
			select {
			case <-t.Ended:
			case <-t.over:
			default:
				return t, nil
			}
			up, poll = nil, time.After(endPoll) // Run will notice
		}
		select {
		case <-up:
		case <-poll:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			alone = k.alone
		case alone <- struct{}{}:
			return nil, nil //nolint:nilnil // see above
		}
	}
}

// programFor returns a program for the nth try of a task, and what is to be called when that has ended: the running one, or one of the task's own. While there are
// many of those, since one that ends has had many tasks, only a last try waits for one of them to end.
func (k *Kept) programFor(ctx context.Context, n int) (_ *talk, done func(), err error) {
	own := false
	if n > 1 {
		select {
		case k.alone <- struct{}{}:
			own = true
		default:
		}
	}
	switch {
	case own:
	case n < MaxDeliveries:
		if t, err := k.await(ctx); t != nil || err != nil {
			return t, func() {}, err
		}
	default:
		select {
		case k.alone <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	t, err := k.start(true)
	if err != nil {
		<-k.alone
		return nil, nil, err
	}
	return t, func() { t.end(true); <-k.alone }, nil
}

// Execute implements [Executor].
func (k *Kept) Execute(ctx context.Context, t *Task) iter.Seq2[a2a.Event, error] {
	return Handler(k.do).Execute(ctx, t)
}

func (k *Kept) do(ctx context.Context, t *Task) (*Result, error) {
	if err := k.p.begun(t); err != nil {
		return nil, err
	}
	ctx, cancel := k.p.timed(ctx)
	defer cancel()
	files, given, err := begin(ctx, t, k.notes)
	if err != nil {
		return nil, err
	}
	defer files.remove()
	for n := 1; ; n++ {
		program, done, err := k.programFor(ctx, n)
		if err != nil {
			return nil, err
		}
		r, err := (&dialog{k: program, t: t, id: given.ID, files: files, notes: k.notes, given: given}).run(ctx)
		done()
		switch {
		case errors.Is(err, errElsewhere):
			n--
			continue
		case !errors.Is(err, errLost):
			return r, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case k.p.once[t.Skill]:
			return nil, fmt.Errorf("%s ended while it worked on this, and what it had done until then is unknown: %w", k.p.name, program.how())
		case n == MaxDeliveries:
			return nil, fmt.Errorf("%s ended %d times while it worked on this: %w", k.p.name, n, program.how())
		}
		t.startOver()
		if err := files.emptied(); err != nil {
			return nil, fmt.Errorf("the folder of the task: %w", taskfile.Pathless(err))
		}
		again := *given
		again.Delivery++
		given = &again
	}
}
