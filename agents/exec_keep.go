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

// keptPatience is how long a task waits for a program that is being started again.
const keptPatience = 30 * time.Second

// Kept is an [Executor] that has one program do all tasks, see [Keep].
type Kept struct {
	p       *program
	notes   *questions
	changes chan Change

	mu     sync.Mutex
	talk   *talk         // nil while the program does not run
	up     chan struct{} // closed when talk is set
	away   error         // why talk is nil
	closed bool
}

var _ Executor = (*Kept)(nil)

// Keep returns an Executor for a program that stays and gets all tasks, many at a time, in lines of JSON, as package jsonl says. [Kept.Run] runs the
// program, and starts it again with growing pauses when it ends; meanwhile the agent is draining.
//
// A task that the program had when it ended is given to the next one, with a higher delivery, up to [MaxDeliveries] times, as when the agent itself
// is lost. When its skill is to be done once by the card, the task fails instead, in both cases. A program that goes on with a canceled task is started again as soon
// as it has no other tasks, or has 16 such tasks; and one that says nothing while the time of three tasks in a row runs out, at once.
func Keep(o ExecOptions) (*Kept, error) {
	p, err := newProgram(o)
	if err != nil {
		return nil, err
	}
	return &Kept{p: p, notes: openQuestions(o.Questions), changes: make(chan Change, 1), up: make(chan struct{}), away: errors.New("it was not started yet")}, nil
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
		t, err := k.p.start(append(os.Environ(), k.p.Env...), false)
		switch {
		case err != nil && first:
			return err
		case err != nil:
			k.set(nil, err)
		default:
			if !k.set(t, nil) {
				t.end(true)
				return nil
			}
			if !first {
				k.p.log("it runs again")
				k.tell(Change{})
			}
			select {
			case <-t.gone:
			case <-t.over:
			case <-ctx.Done():
				return nil
			}
			k.set(nil, errors.New("it is started again"))
			k.tell(Change{Draining: true})
			t.end(true)
			err = t.why()
			k.set(nil, err)
		}
		pause := restarts.Pause(time.Since(began))
		k.p.log(fmt.Sprintf("it is started again in %v: %v", pause.Round(100*time.Millisecond), err))
		if rest.For(ctx, pause) != nil {
			return nil
		}
	}
}

// set sets the running program, or why there is none. It returns false when k is closed.
func (k *Kept) set(t *talk, away error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed && t != nil {
		return false
	}
	if k.talk != nil {
		k.up = make(chan struct{})
	}
	if k.talk, k.away = t, away; t != nil {
		close(k.up)
	}
	return true
}

// Close ends the program and all processes that it started.
func (k *Kept) Close() {
	k.mu.Lock()
	t := k.talk
	k.closed = true
	k.mu.Unlock()
	if t != nil {
		t.end(false)
	}
}

// await returns the running program, and waits up to keptPatience for it.
func (k *Kept) await(ctx context.Context) (*talk, error) {
	patience := time.NewTimer(keptPatience)
	defer patience.Stop()
	for {
		k.mu.Lock()
		t, up, away := k.talk, k.up, k.away
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
			return nil, fmt.Errorf("%s is away: %w", k.p.name, away)
		}
	}
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
		program, err := k.await(ctx)
		if err != nil {
			return nil, err
		}
		r, err := (&dialog{k: program, t: t, id: given.ID, files: files, notes: k.notes, given: given}).run(ctx)
		switch {
		case !errors.Is(err, errLost):
			return r, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case k.p.once[t.Skill]:
			return nil, fmt.Errorf("%s ended while it worked on this, and what it had done until then is unknown: %w", k.p.name, program.why())
		case n == MaxDeliveries:
			return nil, fmt.Errorf("%s ended %d times while it worked on this: %w", k.p.name, n, program.why())
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
