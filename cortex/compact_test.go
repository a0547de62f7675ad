package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// recap is what the decider knows of the conversation: the summary, how many turns are left out, and what is shown.
func recap(t *llm.Turn) string {
	var users []string
	for _, h := range t.History {
		users = append(users, h.User)
	}
	return fmt.Sprintf("[%s] %d %s", t.Summary, t.Omitted, strings.Join(users, ","))
}

// window makes a decider whose model sees so many turns, this one included; it says what it sees. Summaries are the words of
// the turns that they stand for.
func window(most int) compacting {
	decide := simple(func(t *llm.Turn) *llm.Decision {
		if t.User == "work" && len(t.Steps) == 0 {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
		}
		return respond(recap(t))
	})
	return compacting{decide, func(_ context.Context, t *llm.Turn, force bool) (*llm.Summary, error) {
		if len(t.History) < most && !force {
			return nil, nil
		}
		if len(t.History) == 0 {
			return nil, llm.ErrTooLong
		}
		return summaryOf(t), nil
	}}
}

func summaryOf(t *llm.Turn) *llm.Summary {
	s := &llm.Summary{Text: t.Summary, Turns: (len(t.History) + 1) / 2, Model: "m", Usage: llm.Usage{Input: 10, Output: 1}}
	for _, h := range t.History[:s.Turns] {
		s.Text += h.User + ";"
	}
	return s
}

// summaries returns what was recorded: turns, text, and what was left out of it.
func summaries(t *testing.T, s cortex.Store) (list []string) {
	t.Helper()
	for _, e := range entries(t, s) {
		if e.Summary != nil {
			list = append(list, fmt.Sprintf("%d %s %d", e.Summary.Turns, e.Summary.Text, e.Omitted))
		}
	}
	return list
}

func TestSummaryTakesThePlaceOfTurns(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := window(4)
				w := newWorld(t, decider)
				for i := range 9 {
					w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
					if restart {
						w.stop()
						w.start(cortex.Config{Decider: decider})
					}
				}
				w.say("m9", "u9")
				answers := w.answers()
				for i, want := range []string{
					"[] 0 ", "[] 0 u0", "[] 0 u0,u1", "[] 0 u0,u1,u2", "[u0;u1;] 0 u2,u3", "[u0;u1;] 0 u2,u3,u4", "[u0;u1;u2;u3;] 0 u4,u5",
					"[u0;u1;u2;u3;] 0 u4,u5,u6", "[u0;u1;u2;u3;u4;u5;] 0 u6,u7",
				} {
					if got := answers[fmt.Sprint("m", i)]; got != want {
						t.Errorf("turn %d was shown %q, want %q", i, got, want)
					}
				}
				if diff := cmp.Diff([]string{"2 u0;u1; 0", "2 u0;u1;u2;u3; 0", "2 u0;u1;u2;u3;u4;u5; 0"}, summaries(t, w.store)); diff != "" {
					t.Errorf("summaries (-want +got):\n%s", diff)
				}
				w.wantFold()
			})
		})
	}
}

// TestSummaryWhileTurnsAreOpen has turns begin, end and be canceled between the summaries: the fold of the log must drop the
// very turns that were summarised.
func TestSummaryWhileTurnsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, window(2))
		w.say("m0", "work")
		w.say("m1", "u1")
		w.say("m2", "work")
		w.say("m3", "u3") // u1 is summarised, and m0 still open
		tasks := w.tasksOf("alpha")
		w.finish("alpha", tasks[1].TaskID, "second") // answered before m0
		w.say("m4", "work")
		w.publish(&transport.Event{ID: "stop", Time: time.Now(), From: "user", ContextID: conversation, Payload: &transport.Cancel{Turn: "m4"}})
		w.finish("alpha", tasks[0].TaskID, "first")
		w.say("m5", "u5")
		w.say("m6", "u6")
		w.wantFold()
		var shown []string
		for _, turn := range w.decisions() {
			shown = append(shown, recap(turn))
		}
		want := []string{
			"[] 0 ", "[] 0 ", "[] 0 u1", "[] 0 u1", "[u1;] 0 u3", "[u1;u3;] 0 work", "[u1;u3;work;] 0 work", "[u1;u3;work;work;] 0 work", "[u1;u3;work;work;work;] 0 u5",
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("shown to the decider (-want +got):\n%s", diff)
		}
	})
}

// TestSummariesOfOneDecisionAreOne needs several to make the prompt fit, one of which cannot be made.
func TestSummariesOfOneDecisionAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := 0
		var seen []string
		decider := compacting{
			simple(func(t *llm.Turn) *llm.Decision { return respond(recap(t)) }),
			func(_ context.Context, t *llm.Turn, force bool) (*llm.Summary, error) {
				if t.User != "now" {
					return nil, nil
				}
				seen = append(seen, recap(t))
				switch step++; step {
				case 1:
					return summaryOf(t), nil
				case 2:
					return &llm.Summary{Turns: 2}, &llm.Error{Kind: llm.ErrRefused, Provider: "p", Usage: llm.Usage{Input: 7}}
				case 3:
					return summaryOf(t), nil
				}
				return nil, nil
			},
		}
		w := newWorld(t, decider)
		for i := range 8 {
			w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
		}
		w.say("m8", "now")
		want := []string{"[] 0 u0,u1,u2,u3,u4,u5,u6,u7", "[u0;u1;u2;u3;] 0 u4,u5,u6,u7", "[u0;u1;u2;u3;] 2 u6,u7", "[u0;u1;u2;u3;u6;] 2 u7"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("shown for summaries (-want +got):\n%s", diff)
		}
		w.wantAnswer("m8", "[u0;u1;u2;u3;u6;] 2 u7")
		if diff := cmp.Diff([]string{"7 u0;u1;u2;u3;u6; 2"}, summaries(t, w.store)); diff != "" {
			t.Errorf("summaries (-want +got):\n%s", diff)
		}
		last := entries(t, w.store)[8]
		if got, want := last.Summary.Usage, (llm.Usage{Input: 20, Output: 2}); got != want {
			t.Errorf("usage of the summary %+v, want %+v", got, want)
		}
		if got, want := last.Usage, (llm.Usage{Input: 27, Output: 2}); got != want {
			t.Errorf("usage of the entry %+v, want %+v: the summary's, and that of the one that was not made", got, want)
		}
		step = 9
		w.say("m9", "u9")
		w.wantAnswer("m9", "[u0;u1;u2;u3;u6;] 2 u7,now")
		w.wantFold()
	})
}

// TestSummaryThatCannotBeMade leaves the turns out, and says how many.
func TestSummaryThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(2)
		decider.compact = func(_ context.Context, t *llm.Turn, _ bool) (*llm.Summary, error) {
			if len(t.History) < 2 {
				return nil, nil
			}
			return &llm.Summary{Turns: 1}, llm.ErrUnavailable
		}
		w := newWorld(t, decider)
		for i := range 5 {
			w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
		}
		w.wantAnswer("m4", "[] 3 u3")
		w.wantFold()
	})
}

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

// TestSummaryThatHangs holds that a slow summary neither ends the decision nor delays another conversation.
func TestSummaryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(1)
		decider.compact = func(ctx context.Context, turn *llm.Turn, _ bool) (*llm.Summary, error) {
			if turn.ContextID != conversation && len(turn.History) > 0 {
				<-ctx.Done()
				return &llm.Summary{Turns: len(turn.History)}, ctx.Err()
			}
			return nil, nil
		}
		w := newWorld(t, decider)
		for _, id := range []string{"s1", "s2"} {
			slow := userEvent(id, id)
			slow.ContextID = "slow"
			w.publish(slow)
		}
		w.say("m1", "quick")
		w.wantAnswer("m1", "[] 0 ")
		pass(time.Minute) // half of what the decision may take
		conv, err := cortex.Load(t.Context(), w.store, "", "slow")
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := conv.AnswerOf("s2"); !ok || transport.Text(m.Parts) != "[] 1 " {
			t.Errorf("answer %v, want one without the turn that could not be summarised", m)
		}
	})
}

// TestSummaryOfAFailedDecision keeps what was paid for.
func TestSummaryOfAFailedDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(2)
		decide := decider.decideFunc
		decider.decideFunc = func(ctx context.Context, turn *llm.Turn, s func(string)) (*llm.Decision, error) {
			if turn.User == "fail" {
				return nil, llm.ErrUnavailable
			}
			return decide(ctx, turn, s)
		}
		w := newWorld(t, decider)
		for i, text := range []string{"u0", "u1", "fail", "u3"} {
			w.say(fmt.Sprint("m", i), text)
		}
		if diff := cmp.Diff([]string{"1 u0; 0", "1 u0;u1; 0"}, summaries(t, w.store)); diff != "" {
			t.Errorf("summaries (-want +got):\n%s", diff)
		}
		w.wantAnswer("m3", "[u0;u1;] 0 fail")
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
			if got := conv.Preview("", t0); len(got.History) != 0 || got.Summary == "" {
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

// TestCompactorThatMisbehaves holds that nothing a plugged-in one does ends in a panic or goes on for ever.
func TestCompactorThatMisbehaves(t *testing.T) {
	for name, compact := range map[string]func(context.Context, *llm.Turn, bool) (*llm.Summary, error){
		"panic":    func(context.Context, *llm.Turn, bool) (*llm.Summary, error) { panic("boom") },
		"no turns": func(context.Context, *llm.Turn, bool) (*llm.Summary, error) { return &llm.Summary{Text: "x"}, nil },
		"negative turns": func(context.Context, *llm.Turn, bool) (*llm.Summary, error) {
			return &llm.Summary{Text: "x", Turns: -1}, nil
		},
		"too many turns": func(context.Context, *llm.Turn, bool) (*llm.Summary, error) {
			return &llm.Summary{Text: "x", Turns: 1 << 40}, nil
		},
		"error": func(context.Context, *llm.Turn, bool) (*llm.Summary, error) { return nil, errors.New("no") },
		"much text": func(_ context.Context, t *llm.Turn, _ bool) (*llm.Summary, error) {
			return &llm.Summary{Text: strings.Repeat("x", 9<<20), Turns: len(t.History)}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, compacting{simple(func(*llm.Turn) *llm.Decision { return respond("ok") }), compact})
				for i := range 3 {
					w.say(fmt.Sprint("m", i), "x")
				}
				want := map[string]string{"panic": "(the decider panicked: boom)", "error": "(no)"}[name]
				if want == "" {
					want = "ok"
				}
				if got := w.answers()["m2"]; !strings.HasSuffix(got, want) {
					t.Errorf("answer %q, want %q", got, want)
				}
				for _, e := range entries(t, w.store) {
					if e.Summary != nil && (len(e.Summary.Text) > 33<<10 || e.Summary.Turns < 1 || e.Summary.Turns > 2) {
						t.Errorf("recorded a summary of %d turns with %d bytes", e.Summary.Turns, len(e.Summary.Text))
					}
				}
				w.wantFold()
			})
		})
	}
}

// TestSummaryInTheMiddleOfATurn holds that a turn of several steps goes on.
func TestSummaryInTheMiddleOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(100)
		decider.compact = func(_ context.Context, turn *llm.Turn, _ bool) (*llm.Summary, error) {
			if len(turn.Steps) == 0 || len(turn.History) < 2 {
				return nil, nil
			}
			return summaryOf(turn), nil
		}
		w := newWorld(t, decider)
		w.say("m0", "u0")
		w.say("m1", "u1")
		w.say("m2", "work")
		w.publish(resultEvent("r", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "done"))
		w.wantAnswer("m2", "[u0;] 0 u1")
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
		in, left := conv.Preview("", t0), 3-max(0, min(turns, 2))
		if len(in.History) != left || in.Summary != "before" || in.Omitted != 0 {
			t.Errorf("summary of %d turns: %d shown, %d omitted, summary %q; want %d, 0, before", turns, len(in.History), in.Omitted, in.Summary, left)
		}
	}
}

// TestCancelDuringASummary ends the turn at once, without a decision.
func TestCancelDuringASummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(1)
		decider.compact = func(ctx context.Context, turn *llm.Turn, _ bool) (*llm.Summary, error) {
			if len(turn.History) == 0 {
				return nil, nil
			}
			<-ctx.Done()
			return &llm.Summary{Turns: 1, Usage: each}, ctx.Err()
		}
		w := newWorld(t, decider)
		w.say("m0", "u0")
		w.say("m1", "u1")
		e := &transport.Event{ID: "stop", Time: time.Now(), From: "user", ContextID: conversation, Payload: &transport.Cancel{Turn: "m1"}}
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m1", cortex.Canceled)
		if n := len(w.decisions()); n != 1 {
			t.Errorf("%d calls of the decider, want only that for the first message", n)
		}
		if got := w.load().Usage; got != each || len(summaries(t, w.store)) != 0 {
			t.Errorf("the conversation cost %+v and has the summaries %q, want %+v and none", got, summaries(t, w.store), each)
		}
		w.wantFold()
	})
}
