package agents_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// An agent gives a task the time that Cortex means, whatever its own clock says.
func TestWrongClocks(t *testing.T) {
	const span = time.Minute
	type step struct {
		wait   time.Duration // before the task
		ahead  time.Duration // of our clock
		queued time.Duration // since the task was sent
		want   time.Duration // the handler's time
	}
	tests := map[string][]step{
		"right":                {{want: span}, {queued: 20 * time.Second, want: 40 * time.Second}},
		"ahead":                {{ahead: time.Hour, want: span}, {ahead: time.Hour, want: span}},
		"ahead by nearly all":  {{ahead: span - 1, want: span}},
		"behind":               {{ahead: -time.Hour, want: span}},
		"ahead and waited":     {{ahead: time.Hour, want: span}, {ahead: time.Hour, queued: 50 * time.Second, want: 10 * time.Second}},
		"behind and waited":    {{ahead: -time.Hour, want: span}, {ahead: -time.Hour, queued: 50 * time.Second, want: 10 * time.Second}},
		"centuries":            {{ahead: 1 << 62, want: span}, {ahead: -1 << 62, want: span}, {ahead: 1 << 62, want: span}},
		"the first one waited": {{queued: 20 * time.Second, want: span}, {want: span}, {queued: 20 * time.Second, want: 40 * time.Second}},
		"set back meanwhile":   {{want: span}, {ahead: time.Hour, want: span}, {ahead: time.Hour, queued: 50 * time.Second, want: 10 * time.Second}},
		"set back by less":     {{want: span}, {ahead: 40 * time.Second, want: 20 * time.Second}, {wait: 30 * time.Minute, ahead: 40 * time.Second, want: span}},
		"set back, and busy": {
			{want: span},
			{wait: 8 * time.Minute, ahead: 40 * time.Second, want: 20 * time.Second},
			{wait: 8 * time.Minute, ahead: 40 * time.Second, want: 20 * time.Second},
			{wait: 8 * time.Minute, ahead: 40 * time.Second, want: 20 * time.Second},
			{wait: 8 * time.Minute, ahead: 40 * time.Second, want: span},
		},
		"trusted for a while":     {{want: span}, {wait: 11 * time.Minute, queued: 20 * time.Second, want: 40 * time.Second}},
		"set forward meanwhile":   {{ahead: time.Hour, want: span}, {want: span}, {queued: 50 * time.Second, want: 10 * time.Second}},
		"waited until it is over": {{want: span}, {queued: 2 * span, want: span}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				got := make(chan time.Duration, 1)
				defer b.serve(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
					start := time.Now()
					<-ctx.Done()
					if d := time.Since(start); !task.Deadline.Equal(start.Add(d)) {
						t.Errorf("the deadline is named %v after the start, and comes after %v", task.Deadline.Sub(start), d)
					}
					got <- time.Since(start)
					return nil, ctx.Err()
				}, nil)()
				for i, s := range steps {
					pass(s.wait)
					sent := time.Now().Add(-s.ahead).Add(-s.queued).Round(0)
					e := task(string(rune('a'+i)), "hello", map[string]any{transport.MetaDeadline: sent.Add(span).Format(time.RFC3339Nano)})
					e.Time = sent
					b.give(e)
					if d := <-got; d != s.want {
						t.Errorf("task %d: the handler had %v, want %v", i, d, s.want)
					}
				}
			})
		})
	}
}

// The time of a Cancel counts too.
func TestCancelTellsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(h.handle, nil)()
		b.cancel(&transport.Cancel{TaskID: "other"})
		e := task("t1", "hello", timed(time.Now().Add(-20*time.Second)))
		e.Time = time.Now().Add(-20 * time.Second)
		b.give(e)
		pass(40*time.Second - time.Nanosecond)
		b.want()
		pass(time.Nanosecond)
		b.want("t1 FAILED: the agent was not done at the deadline")
	})
}
