package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/llm"
)

// TestTooLongAfterAll has an endpoint that accepts less than the decider assumed.
func TestTooLongAfterAll(t *testing.T) {
	for _, test := range []struct {
		name      string
		fits      int // number of turns of history that fit; -1: none
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

// TestTooLongForgetsNothing has a message that does not fit, whatever is summarised: the cost counts, and the
// next message finds the conversation unchanged.
func TestTooLongForgetsNothing(t *testing.T) {
	decider := window(100)
	decide, compact := decider.decideFunc, decider.compact
	decider.decideFunc = func(ctx context.Context, turn *llm.Turn, s func(string)) (*llm.Decision, error) {
		if turn.User == "doomed" {
			return nil, llm.ErrTooLong
		}
		return decide(ctx, turn, s)
	}
	knows := decider
	knows.compact = func(ctx context.Context, turn *llm.Turn, force bool) (*llm.Summary, error) {
		if turn.User == "doomed" {
			return nil, llm.ErrTooLong
		}
		return compact(ctx, turn, force)
	}
	for _, test := range []struct {
		name    string
		decider llm.Decider
		want    string // in the answer
		paid    llm.Usage
	}{
		{"the decider knows", knows, "for this request alone", llm.Usage{}},
		{"the endpoint says it", decider, "this conversation is too long", llm.Usage{Input: 30, Output: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.decider)
				for i := range 9 {
					w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
				}
				w.say("doomed", "doomed")
				if got := w.answers()["doomed"]; !strings.Contains(got, test.want) {
					t.Errorf("answer %q, want one with %q", got, test.want)
				}
				if got := entries(t, w.store)[9].Usage; got != test.paid {
					t.Errorf("the entry cost %+v, want %+v", got, test.paid)
				}
				w.say("next", "next")
				w.wantAnswer("next", "[] 0 u0,u1,u2,u3,u4,u5,u6,u7,u8,doomed")
				w.wantFold()
			})
		})
	}
}

// TestTooLongWithoutHistory has nothing to summarise.
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
