package cortex_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/llm"
)

func TestBudget(t *testing.T) {
	type say struct {
		user   string
		budget llm.Budget // passed to the decider
		want   string     // in the answer; "": it was decided
	}
	for name, test := range map[string]struct {
		budget budget.Limits
		says   []say
	}{
		"none": {budget.Limits{}, []say{{"a", llm.Budget{}, ""}, {"b", llm.Budget{}, ""}}},
		"conversation, tokens": {budget.Limits{Conversation: llm.Budget{Tokens: 200}}, []say{
			{"a", llm.Budget{Tokens: 200}, ""},
			{"b", llm.Budget{Tokens: 90}, ""},
			{"c", llm.Budget{}, "The budget for this conversation is used up (220 of 200 tokens). Begin another one with /new, or have the budget of a conversation raised."},
		}},
		"conversation, exactly": {budget.Limits{Conversation: llm.Budget{Tokens: 110}}, []say{
			{"a", llm.Budget{Tokens: 110}, ""}, {"b", llm.Budget{}, "110 of 110 tokens"},
		}},
		"conversation, exactly its cost": {budget.Limits{Conversation: llm.Budget{Cost: 0.25}}, []say{
			{"a", llm.Budget{Cost: 0.25}, ""}, {"b", llm.Budget{}, "cost 0.25 of 0.25"},
		}},
		"conversation, cost": {budget.Limits{Conversation: llm.Budget{Cost: 0.4}}, []say{
			{"a", llm.Budget{Cost: 0.4}, ""},
			{"b", llm.Budget{Cost: 0.15000000000000002}, ""},
			{"c", llm.Budget{}, "The budget for this conversation is used up (cost 0.5 of 0.4)."},
		}},
		"turn": {budget.Limits{Turn: llm.Budget{Tokens: 100}}, []say{
			{"a", llm.Budget{Tokens: 100}, ""}, {"b", llm.Budget{Tokens: 100}, ""},
		}},
		"turn of two steps": {budget.Limits{Turn: llm.Budget{Tokens: 100}}, []say{
			{"work", llm.Budget{Tokens: 100}, "The budget for this request is used up (110 of 100 tokens). Ask for less at once"},
		}},
		"day": {budget.Limits{Day: llm.Budget{Tokens: 150, Cost: 9}}, []say{
			{"a", llm.Budget{Tokens: 150, Cost: 9}, ""},
			{"b", llm.Budget{Tokens: 40, Cost: 8.75}, ""},
			{"c", llm.Budget{}, "The budget for today is used up (220 of 150 tokens, cost 0.5 of 9). Go on tomorrow (UTC)"},
		}},
		"the smallest": {budget.Limits{Turn: llm.Budget{Tokens: 150, Cost: 1}, Conversation: llm.Budget{Tokens: 200, Cost: 0.5}, Day: llm.Budget{Cost: 3}}, []say{
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

// TestDayIsOfAllConversations checks that all conversations share the day's limit, which starts anew at midnight UTC, also after a restart.
func TestDayIsOfAllConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := costing(answering)
		w := newWorld(t, decider)
		east := func() time.Time { return time.Now().In(time.FixedZone("", 5*60*60)) }
		cfg := cortex.Config{Decider: decider, Budget: budget.Limits{Day: llm.Budget{Tokens: 110}}, Now: east}
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

// TestDayHoldsWhatIsUnderWay has one person ask for much more at once than the day's budget holds, of a slow model: what is under way counts, so that the
// budget is used up and hardly overdrawn. Who waits is decided about when something is left, and else told that it is used up.
func TestDayHoldsWhatIsUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		cost        func(n int) float64
		least, most float64 // spent of 5
	}{
		"the same": {func(int) float64 { return 0.25 }, 5, 5},
		"various":  {func(n int) float64 { return 0.1 + 0.3*float64(n%2) }, 5, 5.8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun atomic.Int64
				decider := decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
					n := begun.Add(1)
					select {
					case <-time.After(time.Minute + time.Duration(n)*time.Second):
						return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: llm.Usage{Input: 10, Cost: test.cost(int(n))}}, nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				})
				w := newWorld(t, decider)
				w.restart(cortex.Config{Decider: decider, DecideTimeout: time.Hour, Authenticated: true, Budget: budget.Limits{Day: llm.Budget{Cost: 5}}})
				const asked = 200
				for i := range asked {
					w.publish(requestOf("ada", i))
				}
				if n := begun.Load(); n != 8 {
					t.Errorf("%d have begun before the cost of one is known, want 8", n)
				}
				if got := w.orch.Trouble(); len(got) != 1 || !strings.Contains(got[0], "192 turns wait") || !strings.Contains(got[0], "may use up the day's budget") {
					t.Errorf("trouble %q, want what waits, and why", got)
				}
				pass(time.Hour)
				decided, refused := 0, 0
				for i := range asked {
					switch got := answerIn(t, w.store, fmt.Sprint("ada", i)); {
					case got == "ok":
						decided++
					case strings.HasPrefix(got, "The budget for today is used up"):
						refused++
					default:
						t.Fatalf("answer %q", got)
					}
				}
				if spent := w.spentOn(time.Now()).Cost; decided+refused != asked || spent < test.least-1e-9 || spent > test.most+1e-9 {
					t.Errorf("%v of 5 was spent on %d, %d were refused", spent, decided, refused)
				}
			})
		})
	}
}

// TestDayHoldsWhatIsUnderWayInReplicas has two replicas decide. Neither knows what is under way in the other: each counts on its part of what is left. What
// the other has spent is known since the last reading of the spend log, and here all decisions end at the same moment: that may overdraw the limit, by less than
// the half that is the other's.
func TestDayHoldsWhatIsUnderWayInReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			select {
			case <-time.After(time.Minute):
				return &llm.Decision{Kind: llm.KindRespond, Say: "ok", Usage: llm.Usage{Cost: 0.25}}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		w := newWorld(t, decider)
		cfg := cortex.Config{Decider: decider, DecideTimeout: time.Hour, Budget: budget.Limits{Day: llm.Budget{Cost: 10}}}
		w.restart(cfg)
		w.start(cfg)
		pass(time.Minute) // until each has its partitions
		for i := range 400 {
			w.publish(requestOf("ada", i))
		}
		pass(time.Hour)
		if spent := w.spentOn(time.Now()).Cost; spent < 10 || spent > 15 {
			t.Errorf("%v of 10 was spent", spent)
		}
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
		w.start(cortex.Config{Decider: decider, Budget: budget.Limits{Turn: llm.Budget{Tokens: 500}, Conversation: llm.Budget{Tokens: 150}}})
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
		w.start(cortex.Config{Decider: decider, Budget: budget.Limits{Turn: llm.Budget{Tokens: 11}}})
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

func TestDayNeedsASpendLog(t *testing.T) {
	w := noSnapshots{}
	_, err := cortex.New(cortex.Config{
		Transport: &recorder{}, Store: w, Decider: answering, Agents: offered, Budget: budget.Limits{Day: llm.Budget{Cost: 1}},
	})
	if err == nil || !strings.Contains(err.Error(), "Budget.Day") {
		t.Errorf("New = %v, want an error that names Budget.Day", err)
	}
}

// TestImpossibleConfig checks that New refuses impossible limits.
func TestImpossibleConfig(t *testing.T) {
	for name, set := range map[string]func(*cortex.Config){
		"Budget.Turn":         func(c *cortex.Config) { c.Budget.Turn.Tokens = -1 },
		"Budget.Conversation": func(c *cortex.Config) { c.Budget.Conversation.Cost = math.NaN() },
		"Budget.Day":          func(c *cortex.Config) { c.Budget.Day.Cost = math.Inf(1) },
		"TaskTimeout":         func(c *cortex.Config) { c.TaskTimeout = -1 },
		"ReplyTimeout":        func(c *cortex.Config) { c.ReplyTimeout = -1 },
		"DecideTimeout":       func(c *cortex.Config) { c.DecideTimeout = -1 },
	} {
		cfg := cortex.Config{Transport: &recorder{}, Store: memstore.New(), Decider: answering, Agents: offered}
		set(&cfg)
		if _, err := cortex.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: New = %v, want an error that names it", name, err)
		}
	}
}
