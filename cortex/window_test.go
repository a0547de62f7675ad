package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestWindowIsSummarisedBeforeItIsCut checks that no turn leaves the window without a summary, however long a conversation is.
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

// TestNearlyFullWindowIsKept has a model fail at summaries for a while, while there is still room for some turns.
func TestNearlyFullWindowIsKept(t *testing.T) {
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
		for i := range 56 {
			w.say(fmt.Sprint("m", i), "x")
		}
		down = false
		w.say("now", "x")
		if last := w.decisions()[56]; last.Omitted != 0 || last.Summary != "before" || len(last.History) != 28 {
			t.Errorf("%d omitted, summary %q, %d shown; want 0, before, 28", last.Omitted, last.Summary, len(last.History))
		}
		w.wantFold()
	})
}

// TestNearlyFullWindowIsTriedNowAndThen has a model that never makes a summary: only one turn in eight pays and waits for an attempt.
func TestNearlyFullWindowIsTriedNowAndThen(t *testing.T) {
	for name, refused := range map[string]*llm.Summary{"refused": {Turns: 24}, "failed": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries []int // turns in the window
				decider := window(1000)
				decider.compact = func(_ context.Context, turn *llm.Turn, force bool) (*llm.Summary, error) {
					if !force {
						return nil, nil
					}
					tries = append(tries, len(turn.History))
					return refused, llm.ErrRefused
				}
				w := newWorld(t, decider)
				w.diligent = true
				for i := range 100 {
					pass(time.Second)
					w.say(fmt.Sprint("m", i), "work") // two decisions
				}
				if diff := cmp.Diff([]int{48, 56, 64, 48, 56, 64}, tries); diff != "" {
					t.Errorf("turns at each try (-want +got):\n%s", diff)
				}
				w.wantFold()
			})
		})
	}
}

// TestNewestTurnIsKept has a message that nearly fills the window: the next question is about it.
func TestNewestTurnIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(1000)
		decider.decideFunc = simple(func(*llm.Turn) *llm.Decision { return respond("ok") })
		w := newWorld(t, decider)
		w.say("m0", "a")
		w.say("m1", strings.Repeat("x", 800<<10))
		w.say("m2", "b")
		w.say("m3", "c")
		var shown []string
		for _, turn := range w.decisions()[2:] {
			shown = append(shown, fmt.Sprintf("%d %d %.3s", len(turn.History), turn.Omitted, turn.Summary))
		}
		if diff := cmp.Diff([]string{"2 0 ", "1 0 a;x"}, shown); diff != "" {
			t.Errorf("turns, turns left out and the summary that were shown (-want +got):\n%s", diff)
		}
		w.wantFold()
	})
}

// TestAnswerOutlivesItsTurn has the turn that was just answered summarised: a client that requests the answer still gets it.
func TestAnswerOutlivesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, window(1))
		for i := range 3 {
			w.say(fmt.Sprint("m", i), "work")
		}
		for i, task := range w.tasksOf("alpha") {
			w.finish("alpha", task.TaskID, "done")
			w.say(fmt.Sprint("n", i), "work") // summarises the answered turns
			conv, err := storage.Load(t.Context(), w.store, "", theContext)
			if err != nil {
				t.Fatal(err)
			}
			if got := preview(conv, ""); len(got.History) != 0 || got.Summary == "" {
				t.Fatalf("turn %d is still shown", i)
			}
			if _, ok := conv.AnswerOf("user", fmt.Sprint("m", i)); !ok {
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
		w.say("long", strings.Repeat("x", 600<<10)) // and the answer is as long
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
		conv := conversation.NewConversation("", theContext)
		for i := range uint64(3) {
			e := &conversation.Entry{Version: conversation.Version(i + 1), Seq: i + 1, Cause: userEvent(fmt.Sprint("m", i), "u"), Turn: fmt.Sprint("m", i), Decision: respond("ok")}
			if i == 2 {
				e.Summary, e.Omitted = &llm.Summary{Text: "before", Turns: turns}, -7
			}
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		in, left := preview(conv, ""), 3-max(0, min(turns, 2))
		if len(in.History) != left || in.Summary != "before" || in.Omitted != 0 {
			t.Errorf("summary of %d turns: %d shown, %d omitted, summary %q; want %d, 0, before", turns, len(in.History), in.Omitted, in.Summary, left)
		}
	}
}
