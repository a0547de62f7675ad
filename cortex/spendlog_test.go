package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// accounting is a store with a separate spend log.
type accounting struct {
	storage.Store
	storage.SpendLog
}

// spendLog is a spend log that can fail or hang, and counts calls. Its Spend takes a while.
type spendLog struct {
	storage.SpendLog
	broken atomic.Bool
	hangs  atomic.Bool // hangs instead of failing
	only   string      // the method that fails; "": both
	takes  time.Duration
	spends atomic.Int32
}

var errSpendLog = errors.New("the account is away")

func (l *spendLog) fault(ctx context.Context, method string) error {
	if !l.broken.Load() || (l.only != "" && l.only != method) {
		return nil
	}
	if l.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return errSpendLog
}

func (l *spendLog) Spent(ctx context.Context, tenant, day string) (llm.Usage, error) {
	if err := l.fault(ctx, "Spent"); err != nil {
		return llm.Usage{}, err
	}
	return l.SpendLog.Spent(ctx, tenant, day)
}

func (l *spendLog) Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error) {
	l.spends.Add(1)
	if l.takes > 0 {
		<-time.After(l.takes)
	}
	if err := l.fault(ctx, "Spend"); err != nil {
		return llm.Usage{}, err
	}
	return l.SpendLog.Spend(ctx, tenant, day, u)
}

// withSpendLog restarts w's orchestrator with another spend log.
func (w *world) withSpendLog(l *spendLog, cfg cortex.Config) {
	w.stop()
	l.SpendLog = w.store.(storage.SpendLog)
	cfg.Store = accounting{w.store, l}
	w.start(cfg)
}

// answerAfter returns the answer to a message, and how long it took.
func (w *world) answerAfter(id, text string) (string, time.Duration) {
	w.t.Helper()
	began := time.Now()
	w.say(id, text)
	for w.answers()[id] == "" && time.Since(began) < time.Hour {
		pass(100 * time.Millisecond)
	}
	return w.answers()[id], time.Since(began)
}

// TestSpendLogThatFails checks that a paid decision is not dropped because the spend log fails, that its cost is
// written later, and that no further decision is made until then if a budget needs the spend log.
func TestSpendLogThatFails(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		t.Run(fmt.Sprintf("bounded %v", bounded), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &spendLog{only: "Spend"}
				decider := costing(simple(func(turn *llm.Turn) *llm.Decision {
					if turn.User == "breaks meanwhile" {
						l.broken.Store(true)
					}
					return respond("ok")
				}))
				w := newWorld(t, decider)
				cfg, decided := cortex.Config{Decider: decider}, 3
				if bounded {
					cfg.Budget.Day.Tokens, decided = 1<<20, 2
				}
				w.withSpendLog(l, cfg)
				w.say("m1", "breaks meanwhile")
				w.wantAnswer("m1", "ok")
				w.say("m2", "is broken")
				got := w.answers()["m2"]
				if !bounded && got != "ok" {
					t.Errorf("answer %q, want ok", got)
				}
				if bounded && (!strings.Contains(got, "budget for the day") || !strings.Contains(got, errSpendLog.Error()) || strings.Contains(got, "\n")) {
					t.Errorf("answer %q, want that the day's account is away", got)
				}
				l.broken.Store(false)
				w.say("m3", "and now")
				w.wantAnswer("m3", "ok")
				if got, want := w.load().Usage, times(decided, each); got != want {
					t.Errorf("the conversation cost %+v, want %+v", got, want)
				}
				if got, want := w.spentOn(time.Now()), times(decided, each); got != want {
					t.Errorf("spent today %+v, want %+v", got, want)
				}
			})
		})
	}
}

// TestSpendLogThatHangs checks that a turn waits only briefly for a hanging spend log, and not at all without a budget that needs it.
func TestSpendLogThatHangs(t *testing.T) {
	for name, test := range map[string]struct {
		only    string
		day     int // tokens
		timeout time.Duration
		within  time.Duration
		first   string // part of the answers
		second  string
	}{
		"spend without a budget": {"Spend", 0, 0, time.Second, "heard a", "heard a"},
		"spend":                  {"Spend", 1000, 0, 11 * time.Second, "heard a", "budget for the day"},
		"spent":                  {"Spent", 1000, 0, 6 * time.Second, "no answer within 5s", "budget for the day"},
		"spent, little time":     {"Spent", 1000, 4 * time.Second, 3 * time.Second, "no answer within 2s", "budget for the day"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := costing(answering)
				w := newWorld(t, decider)
				l := &spendLog{only: test.only}
				l.broken.Store(true)
				l.hangs.Store(true)
				w.withSpendLog(l, cortex.Config{Decider: decider, DecideTimeout: test.timeout, Budget: budget.Limits{Day: llm.Budget{Tokens: test.day}}})
				for i, want := range []string{test.first, test.second} {
					got, took := w.answerAfter(fmt.Sprint("m", i), "a")
					if !strings.Contains(got, want) || took > test.within {
						t.Errorf("answer %q after %v, want %q within %v", got, took, want, test.within)
					}
				}
			})
		})
	}
}

// TestSpendingTogether has many conversations end a decision at the same moment: the spend log is written a few times, and has everything.
func TestSpendingTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		decider := costing(answering)
		w := newWorld(t, decider)
		l := &spendLog{takes: time.Second}
		w.withSpendLog(l, cortex.Config{Decider: decider, Budget: budget.Limits{Day: llm.Budget{Tokens: 1 << 30}}})
		for i := range n {
			e := userEvent(fmt.Sprint("m", i), "a")
			e.ContextID = fmt.Sprint("c", i)
			w.publish(e)
		}
		pass(time.Minute)
		if got := w.spentOn(time.Now()); got != times(n, each) {
			t.Errorf("spent today %+v, want %+v", got, times(n, each))
		}
		if got := l.spends.Load(); got > 4+2*n/transport.DefaultConcurrency { // the first are few, until their cost is known
			t.Errorf("%d writes to the spend log for %d decisions", got, n)
		}
	})
}

// TestNothingSpentIsNotWritten checks that a decider without costs causes no writes.
func TestNothingSpentIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answering)
		w.stop()
		l := &spendLog{SpendLog: w.store.(storage.SpendLog)}
		w.start(cortex.Config{Decider: answering, Store: accounting{w.store, l}})
		w.say("m1", "work")
		w.finish("alpha", w.onlyTask("alpha"), "done")
		if n := l.spends.Load(); n != 0 {
			t.Errorf("%d writes to the spend log, want 0", n)
		}
		for _, e := range w.watched() {
			if m, ok := e.Payload.(*a2a.Message); ok && m.Metadata["usage"] != nil {
				t.Errorf("the answer tells of usage %v", m.Metadata["usage"])
			}
		}
	})
}

// TestSpentWhileStopping stops the orchestrator in the middle of a decision: it will be made again, and the cost of this one
// counts too.
func TestSpentWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			<-ctx.Done()
			return nil, &llm.Error{Kind: llm.ErrUnavailable, Provider: "p", Usage: each, Err: ctx.Err()}
		}))
		w.say("m1", "a")
		w.stop()
		if got := w.spentOn(time.Now()); got != each {
			t.Errorf("spent today %+v, want %+v", got, each)
		}
		w.start(cortex.Config{Decider: costing(answering)})
		pass(time.Minute)
		w.wantAnswer("m1", "heard a")
		if got := w.spentOn(time.Now()); got != times(2, each) {
			t.Errorf("spent today %+v, want %+v", got, times(2, each))
		}
	})
}
