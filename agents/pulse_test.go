package agents_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// timed is the metadata of a task with a timeout of a minute, and at most four minutes with progress.
func timed(sent time.Time) map[string]any {
	return map[string]any{
		transport.MetaDeadline: sent.Add(time.Minute).UTC().Format(time.RFC3339Nano),
		transport.MetaLatest:   sent.Add(4 * time.Minute).UTC().Format(time.RFC3339Nano),
	}
}

// signs returns when Cortex got reports of progress, counted from start.
func (b *bench) signs(start time.Time) []time.Duration {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []time.Duration
	for _, e := range b.results {
		if u, ok := e.Payload.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State == a2a.TaskStateWorking {
			out = append(out, e.Time.Sub(start))
		}
	}
	return out
}

// every calls f at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func seconds(list ...int) []time.Duration {
	var out []time.Duration
	for _, s := range list {
		out = append(out, time.Duration(s)*time.Second)
	}
	return out
}

// Progress moves the deadline of a task with a timeout of a minute to a minute after each report, up to the latest.
func TestProgressMovesTheDeadline(t *testing.T) {
	at := func(times ...int) agents.Handler { // shows progress after these seconds, and then waits
		return func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			start := time.Now()
			for i, s := range times {
				select {
				case <-time.After(time.Until(start.Add(time.Duration(s) * time.Second))):
					task.Progress(fmt.Sprint("step ", i))
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	tests := map[string]struct {
		h      agents.Handler
		meta   map[string]any // replaces timed
		signs  []time.Duration
		ending int // seconds from the start until the handler's context ends
	}{
		"all the time": {h: func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			return nil, every(ctx, time.Second, func() { task.Progress(time.Now().String()) })
		}, signs: seconds(20, 40, 60, 80, 100, 120, 140, 160, 180), ending: 240},
		"artifacts": {h: func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			return nil, every(ctx, time.Second, func() { _ = task.Artifact("a", a2a.NewTextPart("x")) })
		}, signs: seconds(20, 40, 60, 80, 100, 120, 140, 160, 180), ending: 240},
		"never":             {h: at(), ending: 60},
		"once, early":       {h: at(5), signs: seconds(20), ending: 80},
		"once, late":        {h: at(50), signs: seconds(50), ending: 110},
		"twice":             {h: at(5, 25), signs: seconds(20, 40), ending: 100},
		"two, early":        {h: at(5, 10), signs: seconds(20), ending: 80},
		"near the latest":   {h: at(20, 70, 120, 170, 200, 230), signs: seconds(20, 70, 120, 170, 200), ending: 240},
		"where it may not":  {h: at(5, 25), meta: map[string]any{transport.MetaLatest: nil}, ending: 60},
		"unreadable latest": {h: at(5, 25), meta: map[string]any{transport.MetaLatest: "soon"}, ending: 60},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.serve(tt.h, nil)()
				start := time.Now()
				meta := timed(start)
				maps.Copy(meta, tt.meta)
				b.give(task("t1", "hello", meta))
				pass(time.Duration(tt.ending)*time.Second - time.Nanosecond)
				b.want()
				pass(time.Nanosecond)
				b.want("t1 FAILED: the agent was not done at the deadline")
				pass(time.Hour)
				if diff := cmp.Diff(tt.signs, b.signs(start)); diff != "" {
					t.Errorf("told at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A report names the task and its agent, and no two reports are the same event.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Second)
			defer cancel()
			_ = every(ctx, time.Second, func() { task.Progress("on it") })
			return agents.Text("done"), nil
		}, &agents.Options{Instance: "i1"})()
		meta := timed(time.Now())
		meta[transport.MetaAttempt] = 2
		b.give(task("t1", "hello", meta))
		pass(time.Hour)
		b.want("t1 COMPLETED: done")
		ids := map[string]bool{}
		for _, e := range b.results[:2] {
			u := e.Payload.(*a2a.TaskStatusUpdateEvent)
			want := map[string]any{"agent_id": "agent_x", "task_id": "t1", "attempt": 2.0, "turn_id": "turn-1"}
			if diff := cmp.Diff(want, u.Metadata); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if u.TaskID != "t1" || u.ContextID != "ctx" || e.TaskID != "t1" || e.From != "agent_x" || e.To != transport.Cortex || u.Status.Timestamp == nil {
				t.Errorf("it is addressed %+v, %+v", e, u)
			}
			ids[e.ID] = true
		}
		if len(b.results) != 3 || len(ids) != 2 {
			t.Errorf("%d events with %d ids came to Cortex, want two signs and the result behind them", len(b.results), len(ids))
		}
	})
}

// A report that cannot be stored moves nothing; one that is stored late counts from when it was first sent.
func TestSignsAreSentUntilStored(t *testing.T) {
	for name, tt := range map[string]struct{ back, ending time.Duration }{
		"never": {2 * time.Minute, time.Minute},
		"late":  {30 * time.Second, 80 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				tr := &faulty{Bus: b.bus.Dial(), kinds: []transport.Kind{transport.KindInbox}}
				ended := make(chan time.Duration, 1)
				start := time.Now()
				go agents.Serve(t.Context(), tr, card(), agents.Handler(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
					task.Progress("once")
					<-ctx.Done()
					ended <- time.Since(start)
					return nil, ctx.Err()
				}), nil)
				synctest.Wait()
				tr.fail.Store(&transport.ErrUnavailable)
				time.AfterFunc(tt.back, func() { tr.fail.Store(nil) })
				b.give(task("t1", "hello", timed(start)))
				if got := <-ended; got != tt.ending {
					t.Errorf("the handler was stopped after %v, want %v", got, tt.ending)
				}
				pass(time.Hour)
				b.want("t1 FAILED: the agent was not done at the deadline")
			})
		})
	}
}
