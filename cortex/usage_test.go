package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// each is what every decision of costing costs.
var each = llm.Usage{Input: 100, Cached: 50, Output: 10, Cost: 0.25}

// costing makes the decisions of d cost each.
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

func (w *world) load() *cortex.Conversation {
	w.t.Helper()
	conv, err := cortex.Load(w.t.Context(), w.store, "", conversation)
	if err != nil {
		w.t.Fatal(err)
	}
	return conv
}

func (w *world) spentOn(at time.Time) llm.Usage {
	w.t.Helper()
	u, err := w.store.(cortex.Ledger).Spent(w.t.Context(), "", at.UTC().Format("2006-01-02"))
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// TestUsageAddsUp holds that what is paid for counts once: decisions, failures and summaries.
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
				shown[transport.MetaString(m, transport.MetaTurn)] = m.Metadata["usage"]
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
			if turn.Usage != want[turn.ID] {
				t.Errorf("turn %s cost %+v, want %+v", turn.ID, turn.Usage, want[turn.ID])
			}
		}
		if got := w.spentOn(time.Now()); got != sum {
			t.Errorf("spent today %+v, want %+v", got, sum)
		}
		w.wantFold()
	})
}

// TestIncredibleUsage has an endpoint that counts nonsense.
func TestIncredibleUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, u := range []llm.Usage{
			{Input: -5, Cached: -1, Output: -9, Cost: -1},
			{Input: math.MinInt, Cost: math.NaN()},
			{Input: math.MaxInt, Output: math.MaxInt, Cost: math.Inf(1)},
		} {
			w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: u} }))
			w.say("m1", "a")
			w.say("m2", "b")
			w.wantAnswer("m2", "ok")
			got := w.load().Usage
			if got.Input < 0 || got.Output < 0 || got.Cached < 0 || got.Tokens() < 0 || got.Cost != 0 {
				t.Errorf("%d: the conversation cost %+v", i, got)
			}
		}
	})
}

// TestUsageOfAnEntryThatWasNotStored counts what was paid for a decision that came second, or did not fit.
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
			other := &cortex.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
			w.start(cortex.Config{Decider: decider, Store: accounting{&conflicting{w.store, other}, w.store.(cortex.Ledger)}})
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

func TestBudget(t *testing.T) {
	type say struct {
		user   string
		budget llm.Budget // that the decider gets
		want   string     // in the answer; "": it was decided
	}
	for name, test := range map[string]struct {
		budget cortex.Budget
		says   []say
	}{
		"none": {cortex.Budget{}, []say{{"a", llm.Budget{}, ""}, {"b", llm.Budget{}, ""}}},
		"conversation, tokens": {cortex.Budget{Conversation: llm.Budget{Tokens: 200}}, []say{
			{"a", llm.Budget{Tokens: 200}, ""},
			{"b", llm.Budget{Tokens: 90}, ""},
			{"c", llm.Budget{}, "The budget for this conversation is used up (220 of 200 tokens). Begin another one with /new, or have the budget of a conversation raised."},
		}},
		"conversation, exactly": {cortex.Budget{Conversation: llm.Budget{Tokens: 110}}, []say{
			{"a", llm.Budget{Tokens: 110}, ""}, {"b", llm.Budget{}, "110 of 110 tokens"},
		}},
		"conversation, exactly its cost": {cortex.Budget{Conversation: llm.Budget{Cost: 0.25}}, []say{
			{"a", llm.Budget{Cost: 0.25}, ""}, {"b", llm.Budget{}, "cost 0.25 of 0.25"},
		}},
		"conversation, cost": {cortex.Budget{Conversation: llm.Budget{Cost: 0.4}}, []say{
			{"a", llm.Budget{Cost: 0.4}, ""},
			{"b", llm.Budget{Cost: 0.15000000000000002}, ""},
			{"c", llm.Budget{}, "The budget for this conversation is used up (cost 0.5 of 0.4)."},
		}},
		"turn": {cortex.Budget{Turn: llm.Budget{Tokens: 100}}, []say{
			{"a", llm.Budget{Tokens: 100}, ""}, {"b", llm.Budget{Tokens: 100}, ""},
		}},
		"turn of two steps": {cortex.Budget{Turn: llm.Budget{Tokens: 100}}, []say{
			{"work", llm.Budget{Tokens: 100}, "The budget for this request is used up (110 of 100 tokens). Ask for less at once"},
		}},
		"day": {cortex.Budget{Day: llm.Budget{Tokens: 150, Cost: 9}}, []say{
			{"a", llm.Budget{Tokens: 150, Cost: 9}, ""},
			{"b", llm.Budget{Tokens: 40, Cost: 8.75}, ""},
			{"c", llm.Budget{}, "The budget for today is used up (220 of 150 tokens, cost 0.5 of 9). Go on tomorrow (UTC)"},
		}},
		"the smallest": {cortex.Budget{Turn: llm.Budget{Tokens: 150, Cost: 1}, Conversation: llm.Budget{Tokens: 200, Cost: 0.5}, Day: llm.Budget{Cost: 3}}, []say{
			{"a", llm.Budget{Tokens: 150, Cost: 0.5}, ""},
			{"b", llm.Budget{Tokens: 90, Cost: 0.25}, ""},
			{"c", llm.Budget{}, "The budget for this conversation is used up (220 of 200 tokens, cost 0.5 of 0.5)."},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := costing(answering)
				w := newWorld(t, decider)
				w.stop()
				w.start(cortex.Config{Decider: decider, Budget: test.budget})
				for i, s := range test.says {
					id, before := fmt.Sprint("m", i), len(w.decisions())
					w.say(id, s.user)
					for _, task := range w.tasksOf("alpha") {
						w.finish("alpha", task.TaskID, "done")
					}
					if s.want == "" || s.user == "work" {
						if got := w.decisions()[before].Budget; got != s.budget {
							t.Errorf("%s: the decision may spend %+v, want %+v", s.user, got, s.budget)
						}
					} else if n := len(w.decisions()) - before; n != 0 {
						t.Errorf("%s: %d decisions, want 0", s.user, n)
					}
					if got := w.answers()[id]; s.want != "" && !strings.HasPrefix(got, s.want) && !strings.Contains(got, s.want) || s.want == "" && strings.Contains(got, "budget") {
						t.Errorf("%s: answer %q, want %q", s.user, got, s.want)
					}
				}
			})
		})
	}
}

// TestDayIsOfAllConversations holds that the day's budget is one, and begins anew at midnight UTC, also after a restart.
func TestDayIsOfAllConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := costing(answering)
		w := newWorld(t, decider)
		east := func() time.Time { return time.Now().In(time.FixedZone("", 5*60*60)) }
		cfg := cortex.Config{Decider: decider, Budget: cortex.Budget{Day: llm.Budget{Tokens: 110}}, Now: east}
		w.stop()
		w.start(cfg)
		other := userEvent("o1", "a")
		other.ContextID = "other"
		w.publish(other)
		w.stop()
		w.start(cfg)
		w.say("m1", "a")
		if got := w.answers()["m1"]; !strings.Contains(got, "The budget for today is used up") {
			t.Errorf("answer %q, want that the budget is used up", got)
		}
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		pass(time.Until(midnight) - time.Second)
		w.say("m2", "a")
		if got := w.answers()["m2"]; !strings.Contains(got, "The budget for today is used up") {
			t.Errorf("a second before midnight: answer %q, want that the budget is used up", got)
		}
		pass(time.Second)
		w.say("m3", "a")
		w.wantAnswer("m3", "heard a")
	})
}

// TestBudgetThatIsTooSmall has a decider that knows that a decision would cost more than is left.
func TestBudgetThatIsTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := decideFunc(func(_ context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			if turn.Budget.Tokens < 100 {
				return nil, fmt.Errorf("%w: it needs 100", llm.ErrBudget)
			}
			return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: each}, nil
		})
		w := newWorld(t, decider)
		w.stop()
		w.start(cortex.Config{Decider: decider, Budget: cortex.Budget{Turn: llm.Budget{Tokens: 500}, Conversation: llm.Budget{Tokens: 150}}})
		w.say("m1", "a")
		w.say("m2", "b")
		w.wantAnswer("m2", "The budget for this conversation has not enough left for a decision (110 of 150 tokens). "+
			"Begin another one with /new, or have the budget of a conversation raised.")
	})
}

// TestBudgetIsSpentOnSummaries has a summary use up what the decision would have needed.
func TestBudgetIsSpentOnSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(2)
		w := newWorld(t, decider)
		w.stop()
		w.start(cortex.Config{Decider: decider, Budget: cortex.Budget{Turn: llm.Budget{Tokens: 11}}})
		for i := range 4 {
			w.say(fmt.Sprint("m", i), "u")
		}
		if got := w.answers()["m2"]; !strings.Contains(got, "The budget for this request is used up (11 of 11 tokens") {
			t.Errorf("answer %q, want that the budget is used up", got)
		}
		if diff := cmp.Diff([]string{"1 u; 0", "1 u;u; 0"}, summaries(t, w.store)); diff != "" {
			t.Errorf("summaries (-want +got):\n%s", diff)
		}
		w.wantFold()
	})
}

func TestDayNeedsALedger(t *testing.T) {
	w := noSnapshots{}
	_, err := cortex.New(cortex.Config{
		Transport: &recorder{}, Store: w, Decider: answering, Agents: offered, Budget: cortex.Budget{Day: llm.Budget{Cost: 1}},
	})
	if err == nil || !strings.Contains(err.Error(), "Budget.Day") {
		t.Errorf("New = %v, want an error that names Budget.Day", err)
	}
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
