package cortex_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// each is the cost of every decision of costing.
var each = llm.Usage{Input: 100, Cached: 50, Output: 10, Cost: 0.25}

// costing adds the cost each to the decisions of d.
func costing(d decideFunc) decideFunc {
	return func(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
		decision, err := d(ctx, t, stream)
		if err == nil {
			decision.Usage = each
		}
		return decision, err
	}
}

func times(n int, u llm.Usage) llm.Usage {
	return llm.Usage{Input: n * u.Input, Cached: n * u.Cached, Output: n * u.Output, Cost: float64(n) * u.Cost}
}

func (w *world) load() *conversation.Conversation {
	w.t.Helper()
	conv, err := storage.Load(w.t.Context(), w.store, "", theContext)
	if err != nil {
		w.t.Fatal(err)
	}
	return conv
}

func (w *world) spentOn(at time.Time) llm.Usage {
	w.t.Helper()
	u, err := w.store.(storage.SpendLog).Spent(w.t.Context(), "", at.UTC().Format("2006-01-02"))
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// TestUsageAddsUp checks that everything paid for counts once: decisions, failures and summaries.
func TestUsageAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := &llm.Error{Kind: llm.ErrUnavailable, Provider: "p", Usage: llm.Usage{Input: 7, Cost: 0.5}}
		tooLong := &llm.Error{Kind: llm.ErrTooLong, Provider: "p", Usage: llm.Usage{Input: 3}}
		summary := llm.Usage{Input: 1000, Output: 1, Cost: 2}
		decide := costing(answering)
		decider := compacting{func(ctx context.Context, turn *llm.Turn, s func(string)) (*llm.Decision, error) {
			switch {
			case turn.User == "fail":
				return nil, fmt.Errorf("ask: %w", lost)
			case turn.User == "long" && len(turn.History) > 0:
				return nil, tooLong
			case turn.User == "nobody":
				d := delegate(llm.Delegation{ID: "1", Agent: "nobody", Task: "x"})
				d.Usage = each
				return d, nil
			}
			return decide(ctx, turn, s)
		}, func(_ context.Context, turn *llm.Turn, force bool) (*llm.Summary, error) {
			if !force {
				return nil, nil
			}
			return &llm.Summary{Text: "before", Turns: len(turn.History), Usage: summary}, nil
		}}
		w := newWorld(t, decider)
		w.say("m1", "work")
		w.finish("alpha", w.onlyTask("alpha"), "done")
		w.say("m2", "fail")
		w.say("m3", "nobody")
		w.say("m4", "long")
		w.say("m5", "bye")

		want := map[string]llm.Usage{"m1": times(2, each), "m2": lost.Usage, "m3": each, "m4": summary.Add(tooLong.Usage).Add(each), "m5": each}
		var sum llm.Usage
		shown := map[string]any{}
		for _, e := range w.watched() {
			if m, ok := e.Payload.(*a2a.Message); ok {
				shown[transport.MetaString(m, transport.MetaMessage)] = m.Metadata["usage"]
			}
		}
		for id, u := range want {
			sum = sum.Add(u)
			meta, ok := shown[id].(map[string]any)
			got := [4]string{fmt.Sprint(meta["input"]), fmt.Sprint(meta["cached"]), fmt.Sprint(meta["output"]), fmt.Sprint(meta["cost"])}
			if want := [4]string{fmt.Sprint(u.Input), fmt.Sprint(u.Cached), fmt.Sprint(u.Output), fmt.Sprint(u.Cost)}; !ok || got != want {
				t.Errorf("answer to %s tells of %v, want %v", id, shown[id], want)
			}
		}
		conv := w.load()
		if conv.Usage != sum {
			t.Errorf("the conversation cost %+v, want %+v", conv.Usage, sum)
		}
		for _, turn := range conv.Turns {
			if turn.Usage != want[turn.Message] {
				t.Errorf("turn %s cost %+v, want %+v", turn.Message, turn.Usage, want[turn.Message])
			}
		}
		if got := w.spentOn(time.Now()); got != sum {
			t.Errorf("spent today %+v, want %+v", got, sum)
		}
		w.wantFold()
	})
}

// TestIncredibleUsage has an endpoint that reports nonsense.
func TestIncredibleUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, u := range []llm.Usage{
			{Input: -5, Cached: -1, CacheWrite: -2, Output: -9, Reasoning: -3, Cost: -1},
			{Input: math.MinInt, Cost: math.NaN()},
			{Input: math.MaxInt, Output: math.MaxInt, Cost: math.Inf(1)},
		} {
			w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: u} }))
			w.say("m1", "a")
			w.say("m2", "b")
			w.wantAnswer("m2", "ok")
			got := w.load().Usage
			if got.Input < 0 || got.Output < 0 || got.Cached < 0 || got.CacheWrite < 0 || got.Reasoning < 0 || got.Tokens() < 0 || got.Cost != 0 {
				t.Errorf("%d: the conversation cost %+v", i, got)
			}
		}
	})
}

// TestHugeCost checks that the sum of huge costs is still a number.
func TestHugeCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: llm.Usage{Input: 1, Cost: math.MaxFloat64}}
		}))
		for i := range 3 {
			w.say(fmt.Sprint("m", i), "a")
		}
		conv := w.load()
		if _, err := conv.Snapshot(); err != nil || conv.Usage.Cost != 3e12 {
			t.Errorf("the conversation cost %v, its snapshot is %v; want 3e12 and a snapshot", conv.Usage.Cost, err)
		}
		if u := w.spentOn(time.Now()); u.Cost != 3e12 {
			t.Errorf("spent today %+v, want a cost of 3e12", u)
		}
		w.wantFold()
	})
}

// TestEstimatedUsage checks that a sum that includes an estimate is marked as estimated.
func TestEstimatedUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: llm.Usage{Input: 7, Estimated: true}}
		}))
		w.say("m1", "a")
		if conv := w.load(); !conv.Usage.Estimated || conv.Usage.Input != 7 {
			t.Errorf("the conversation cost %+v, want an estimate of 7 tokens", conv.Usage)
		}
	})
}

// TestUsageOfAnEntryThatWasNotStored counts the cost of a decision that came second, or did not fit.
func TestUsageOfAnEntryThatWasNotStored(t *testing.T) {
	decider := costing(simple(func(t *llm.Turn) *llm.Decision { return respond(strings.Repeat("x", 100<<10)) }))
	t.Run("too large", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.stop()
			w.start(cortex.Config{Decider: decider, Store: small{w.store}})
			w.say("m1", "a")
			if got := w.load().Usage; got != each {
				t.Errorf("the conversation cost %+v, want %+v", got, each)
			}
		})
	})
	t.Run("conflict", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.stop()
			other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
			w.start(cortex.Config{Decider: decider, Store: accounting{&conflicting{w.store, other}, w.store.(storage.SpendLog)}})
			w.say("m1", "a")
			if got := w.load().Usage; got != times(2, each) {
				t.Errorf("the conversation cost %+v, want %+v: it was decided twice", got, times(2, each))
			}
			if got := w.spentOn(time.Now()); got != times(2, each) {
				t.Errorf("spent today %+v, want %+v", got, times(2, each))
			}
		})
	})
}
