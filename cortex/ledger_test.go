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
	"github.com/cortex-orchestrator/cortex/llm"
)

// accounting is a store whose ledger is another's.
type accounting struct {
	cortex.Store
	cortex.Ledger
}

// ledger is one that can be broken, and counts.
type ledger struct {
	cortex.Ledger
	broken atomic.Bool
	spends atomic.Int32
}

var errLedger = errors.New("the account is away")

func (l *ledger) Spent(ctx context.Context, tenant, day string) (llm.Usage, error) {
	if l.broken.Load() {
		return llm.Usage{}, errLedger
	}
	return l.Ledger.Spent(ctx, tenant, day)
}

func (l *ledger) Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error) {
	l.spends.Add(1)
	if l.broken.Load() {
		return llm.Usage{}, errLedger
	}
	return l.Ledger.Spend(ctx, tenant, day, u)
}

func TestLedgerThatFails(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		t.Run(fmt.Sprintf("bounded %v", bounded), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := func() {}
				decider := costing(simple(func(turn *llm.Turn) *llm.Decision {
					if turn.User == "breaks meanwhile" {
						broken()
					}
					return respond("ok")
				}))
				w := newWorld(t, decider)
				w.stop()
				l := &ledger{Ledger: w.store.(cortex.Ledger)}
				broken = func() { l.broken.Store(true) }
				cfg := cortex.Config{Decider: decider, Store: accounting{w.store, l}}
				if bounded {
					cfg.Budget.Day.Tokens = 1 << 20
				}
				w.start(cfg)
				w.say("m1", "breaks meanwhile")
				w.say("m2", "is broken")
				for _, id := range []string{"m1", "m2"} {
					got := w.answers()[id]
					if !bounded && got != "ok" {
						t.Errorf("%s: answer %q, want ok", id, got)
					}
					if bounded && (!strings.Contains(got, "budget for the day") || !strings.Contains(got, errLedger.Error()) || strings.Contains(got, "\n")) {
						t.Errorf("%s: answer %q, want that the day's account is away", id, got)
					}
				}
				if got := w.load().Usage; bounded && got != each {
					t.Errorf("the conversation cost %+v, want %+v: the second message was not decided", got, each)
				}
				l.broken.Store(false)
				w.say("m3", "and now")
				w.wantAnswer("m3", "ok")
			})
		})
	}
}

// TestNothingSpentIsNotWritten holds that a decider which costs nothing costs no write either.
func TestNothingSpentIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answering)
		w.stop()
		l := &ledger{Ledger: w.store.(cortex.Ledger)}
		w.start(cortex.Config{Decider: answering, Store: accounting{w.store, l}})
		w.say("m1", "work")
		w.finish("alpha", w.onlyTask("alpha"), "done")
		if n := l.spends.Load(); n != 0 {
			t.Errorf("%d writes to the ledger, want 0", n)
		}
		for _, e := range w.watched() {
			if m, ok := e.Payload.(*a2a.Message); ok && m.Metadata["usage"] != nil {
				t.Errorf("the answer tells of usage %v", m.Metadata["usage"])
			}
		}
	})
}

// TestSpentWhileStopping has the orchestrator stopped in the middle of a decision: it will be made again, and what this one
// cost counts too.
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
