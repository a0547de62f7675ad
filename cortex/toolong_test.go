package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/llm"
)

// TestTooLongAfterAll has an endpoint that takes less than the decider believed.
func TestTooLongAfterAll(t *testing.T) {
	for _, test := range []struct {
		name      string
		fits      int // turns of history that do; -1: none
		decisions int // of the last turn
		want      string
	}{
		{"once", 4, 2, "[u0;u1;u2;u3;] 0 u4,u5,u6,u7"},
		{"twice", 2, 3, "[u0;u1;u2;u3;u4;u5;] 0 u6,u7"},
		{"three times", 1, 4, "[u0;u1;u2;u3;u4;u5;u6;] 0 u7"},
		{"more often", 0, 4, "this conversation is too long for the model. Begin another one with /new, or choose a model with a larger window. (prompt too long: 9 pages)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := window(100)
				decider.decideFunc = func(_ context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
					if turn.User == "now" && len(turn.History) > test.fits {
						return nil, fmt.Errorf("%w: 9 pages", llm.ErrTooLong)
					}
					return respond(recap(turn)), nil
				}
				w := newWorld(t, decider)
				for i := range 8 {
					w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
				}
				w.say("now", "now")
				if got := w.answers()["now"]; !strings.HasSuffix(got, test.want) {
					t.Errorf("answer %q, want %q", got, test.want)
				}
				if n := len(w.decisions()) - 8; n != test.decisions {
					t.Errorf("%d calls of the decider, want %d", n, test.decisions)
				}
				w.wantFold()
			})
		})
	}
}

// TestTooLongWithoutHistory has nothing that could be summarised.
func TestTooLongWithoutHistory(t *testing.T) {
	tooLong := decideFunc(func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { return nil, llm.ErrTooLong })
	refuses := window(0)
	late := compacting{tooLong, func(_ context.Context, _ *llm.Turn, force bool) (*llm.Summary, error) {
		if force {
			return nil, llm.ErrTooLong
		}
		return nil, nil
	}}
	for name, d := range map[string]llm.Decider{"before": refuses, "after": late, "no compactor": tooLong} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, d)
				w.say("m1", "hello")
				if got := w.answers()["m1"]; !strings.Contains(got, "for this request alone") || !strings.Contains(got, "/new") {
					t.Errorf("answer %q, want what is too long and what to do", got)
				}
			})
		})
	}
}
