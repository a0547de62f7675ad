package agents_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// attempt makes the event of an attempt at task t1, in the way the orchestrator does.
func attempt(n int) *transport.Event {
	meta := timed(time.Now())
	meta[transport.MetaAttempt] = n
	e := task("t1", "hello", meta)
	e.ID = fmt.Sprint("e-", n)
	e.Payload.(*a2a.Message).ID = fmt.Sprint("m-", n)
	return e
}

// answered returns the message and the attempt of each result, and checks that no two results have the same id.
func (b *bench) answered() []string {
	synctest.Wait()
	var out []string
	ids := map[string]bool{}
	for _, e := range b.results {
		r := e.Payload.(*a2a.Task)
		out = append(out, fmt.Sprint(r.Metadata[transport.MetaOriginalMessage], " ", r.Metadata[transport.MetaAttempt]))
		if ids[e.ID] {
			b.t.Errorf("two results have the id %s", e.ID)
		}
		ids[e.ID] = true
	}
	return out
}

func TestRetryOfWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(h.handle, nil)()
		b.give(attempt(1))
		pass(50 * time.Second)
		b.give(attempt(2))
		pass(40 * time.Second) // the first deadline has passed
		if n := h.started.Load(); n != 1 || h.cause.Load() != nil {
			t.Fatalf("the task was started %d times, and ended by %v", n, h.cause.Load())
		}
		old := attempt(1)
		old.ID = "again"
		b.give(old) // an older attempt changes nothing
		pass(20*time.Second - time.Nanosecond)
		b.want()
		pass(time.Nanosecond)
		b.want("t1 FAILED: the agent was not done at the deadline")
		if diff := cmp.Diff([]string{"m-2 2"}, b.answered()); diff != "" {
			t.Errorf("answered (-want +got):\n%s", diff)
		}
		if n := b.waiting(); n != 0 {
			t.Errorf("%d events wait, want none", n)
		}
	})
}

// A further attempt at a running task moves the reports of progress to its own time.
func TestRetryOfWhatRunsMovesTheProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			<-time.After(10 * time.Second)
			task.Progress("once")
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil)()
		start := time.Now()
		b.give(attempt(1))
		pass(15 * time.Second)
		b.give(attempt(2))
		pass(time.Hour)
		if diff := cmp.Diff(seconds(35), b.signs(start)); diff != "" {
			t.Fatalf("told at (-want +got):\n%s", diff)
		}
		if got := b.results[0].Payload.(*a2a.TaskStatusUpdateEvent).Metadata[transport.MetaAttempt]; got != 2.0 {
			t.Errorf("progress of attempt %v, want 2", got)
		}
	})
}

func TestRetryOfWhatEnded(t *testing.T) {
	done := func(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("done"), nil }
	for name, tt := range map[string]struct {
		first agents.Handler
		want  []string
		runs  int
	}{
		"failed": {
			func(context.Context, *agents.Task) (*agents.Result, error) { return nil, errors.New("no luck") },
			[]string{"t1 FAILED: no luck", "t1 COMPLETED: done"},
			2,
		},
		"rejected": {
			func(context.Context, *agents.Task) (*agents.Result, error) {
				return nil, agents.Rejected(errors.New("not now"))
			},
			[]string{"t1 REJECTED: not now", "t1 COMPLETED: done"},
			2,
		},
		"completed": {done, []string{"t1 COMPLETED: done", "t1 COMPLETED: done"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				runs := 0
				defer b.serve(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
					if runs++; runs == 1 {
						return tt.first(ctx, task)
					}
					return done(ctx, task)
				}, nil)()
				b.give(attempt(1))
				again := attempt(1)
				again.ID = "again" // a repeated event is no other attempt
				b.give(again)
				b.want(tt.want[0])
				b.give(attempt(2))
				b.want(tt.want...)
				if runs != tt.runs {
					t.Errorf("the handler was called %d times, want %d", runs, tt.runs)
				}
				if diff := cmp.Diff([]string{"m-1 1", "m-2 2"}, b.answered()); diff != "" {
					t.Errorf("answered (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A run that is already over when another attempt arrives does not answer that attempt.
func TestRetryWhileTheRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		runs := 0
		defer b.serve(func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
			if runs++; runs == 2 {
				return agents.Text("done"), nil
			}
			<-ctx.Done()
			<-time.After(5 * time.Second) // the time it takes to end
			return nil, ctx.Err()
		}, nil)()
		b.give(attempt(1))
		pass(61 * time.Second)
		b.give(attempt(2))
		pass(time.Minute)
		got := b.got() // each result by itself
		slices.Sort(got)
		if diff := cmp.Diff([]string{"t1 COMPLETED: done", "t1 FAILED: the agent was not done at the deadline"}, got); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}

// Cortex cancels the attempt that it gives up; the Cancel may arrive before or after the next attempt.
func TestCancelOfAnOlderAttempt(t *testing.T) {
	stop := &transport.Cancel{TaskID: "t1"}
	for name, tt := range map[string]struct {
		play func(b *bench, first time.Time)
		want []string
	}{
		"before": {func(b *bench, _ time.Time) {
			b.give(attempt(1))
			pass(time.Second)
			b.cancel(stop)
			b.give(attempt(2))
		}, []string{"t1 CANCELED: the task was canceled"}},
		"before, and the first was never there": {func(b *bench, _ time.Time) {
			b.cancel(stop)
			b.give(attempt(2))
		}, nil},
		"behind": {func(b *bench, first time.Time) {
			pass(time.Second)
			b.give(attempt(2))
			b.cancelAt(stop, first)
		}, nil},
		"of this one": {func(b *bench, _ time.Time) {
			b.give(attempt(2))
			pass(time.Second)
			b.cancel(stop)
		}, []string{"t1 CANCELED: the task was canceled"}},
		"of this one, before it": {func(b *bench, _ time.Time) {
			e := attempt(2)
			pass(time.Second)
			b.cancel(stop)
			b.give(e)
		}, []string{"t1 CANCELED: the task was canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				h := newHold()
				defer b.serve(h.handle, nil)()
				tt.play(b, time.Now())
				b.want(tt.want...)
				close(h.release)
				want := tt.want
				if name != "of this one" && name != "of this one, before it" {
					want = append(want, "t1 COMPLETED: done")
				}
				b.want(want...)
			})
		})
	}
}
