package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestWindowIsSummarisedBeforeItIsCut holds that nothing is left out without a word, however long a conversation is.
func TestWindowIsSummarisedBeforeItIsCut(t *testing.T) {
	for name, text := range map[string]string{"many turns": "text", "long turns": strings.Repeat("x", 60<<10)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := window(1000)
				decider.decideFunc = simple(func(t *llm.Turn) *llm.Decision { return respond("ok") })
				decider.compact = func(_ context.Context, t *llm.Turn, force bool) (*llm.Summary, error) {
					if !force {
						return nil, nil
					}
					return &llm.Summary{Text: "before", Turns: len(t.History) / 2}, nil
				}
				w := newWorld(t, decider)
				for i := range 150 {
					w.say(fmt.Sprint("m", i), text)
				}
				for i, turn := range w.decisions() {
					if turn.Omitted > 0 {
						t.Fatalf("at turn %d, %d turns are omitted", i, turn.Omitted)
					}
				}
				if n := len(summaries(t, w.store)); n < 4 || n > 30 {
					t.Errorf("%d summaries in 150 turns", n)
				}
				w.wantFold()
			})
		})
	}
}

// TestCrowdedWindowIsKept has a model that makes no summaries for a while, when there is still room for some turns.
func TestCrowdedWindowIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		decider := compacting{
			simple(func(*llm.Turn) *llm.Decision { return respond("ok") }),
			func(_ context.Context, t *llm.Turn, force bool) (*llm.Summary, error) {
				switch {
				case !force:
					return nil, nil
				case down && len(t.History)%2 == 0:
					return nil, llm.ErrUnavailable
				case down:
					return &llm.Summary{Turns: len(t.History) / 2}, llm.ErrRefused
				}
				return &llm.Summary{Text: "before", Turns: len(t.History) / 2}, nil
			},
		}
		w := newWorld(t, decider)
		for i := range 52 {
			w.say(fmt.Sprint("m", i), "x")
		}
		down = false
		w.say("now", "x")
		if last := w.decisions()[52]; last.Omitted != 0 || last.Summary != "before" || len(last.History) != 26 {
			t.Errorf("%d omitted, summary %q, %d shown; want 0, before, 26", last.Omitted, last.Summary, len(last.History))
		}
		w.wantFold()
	})
}

// TestAnswerOutlivesItsTurn has the turn that was just answered summarised: a client that asks for the answer still gets it.
func TestAnswerOutlivesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, window(1))
		for i := range 3 {
			w.say(fmt.Sprint("m", i), "work")
		}
		for i, task := range w.tasksOf("alpha") {
			w.finish("alpha", task.TaskID, "done")
			w.say(fmt.Sprint("n", i), "work") // summarises what was answered
			conv, err := cortex.Load(t.Context(), w.store, "", conversation)
			if err != nil {
				t.Fatal(err)
			}
			if got := conv.Preview("", nil, t0); len(got.History) != 0 || got.Summary == "" {
				t.Fatalf("turn %d is still shown", i)
			}
			if _, ok := conv.AnswerOf(fmt.Sprint("m", i)); !ok {
				t.Errorf("the answer to turn %d is gone", i)
			}
			gone := 0
			for _, turn := range conv.Turns {
				if !turn.Open() {
					gone++
				}
			}
			if gone > 1 {
				t.Errorf("%d turns that left the window are kept, want the last", gone)
			}
		}
		w.wantFold()
	})
}

// TestOneLongTurn has a turn that is larger than the whole window: it is summarised like others, and not left out.
func TestOneLongTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(1000)
		decider.decideFunc = simple(func(t *llm.Turn) *llm.Decision { return respond("you said " + t.User) })
		w := newWorld(t, decider)
		for i := range 5 {
			w.say(fmt.Sprint("m", i), "u")
		}
		w.say("long", strings.Repeat("x", 600<<10)) // and the answer as much
		for i := range 3 {
			w.say(fmt.Sprint("n", i), "u")
		}
		last := w.decisions()[8]
		if last.Omitted != 0 || len(last.History) != 2 || !strings.HasPrefix(last.Summary, "u;u;u;u;u;xx") {
			t.Errorf("%d omitted, %d shown, summary %.20q; want all but two in the summary", last.Omitted, len(last.History), last.Summary)
		}
		w.wantFold()
	})
}

// TestSummaryOfMoreThanThereIs folds entries that no orchestrator of this build writes.
func TestSummaryOfMoreThanThereIs(t *testing.T) {
	for _, turns := range []int{-1, 0, 3, 1 << 40} {
		conv := cortex.NewConversation("", conversation)
		for i := range uint64(3) {
			e := &cortex.Entry{Version: cortex.Version(i + 1), Seq: i + 1, Cause: userEvent(fmt.Sprint("m", i), "u"), Turn: fmt.Sprint("m", i), Decision: respond("ok")}
			if i == 2 {
				e.Summary, e.Omitted = &llm.Summary{Text: "before", Turns: turns}, -7
			}
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		in, left := conv.Preview("", nil, t0), 3-max(0, min(turns, 2))
		if len(in.History) != left || in.Summary != "before" || in.Omitted != 0 {
			t.Errorf("summary of %d turns: %d shown, %d omitted, summary %q; want %d, 0, before", turns, len(in.History), in.Omitted, in.Summary, left)
		}
	}
}
