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
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// recap returns what the decider sees of the conversation: the summary, the number of omitted turns, and the shown turns.
func recap(t *llm.Turn) string {
	var users []string
	for _, h := range t.History {
		users = append(users, h.User)
	}
	return fmt.Sprintf("[%s] %d %s", t.Summary, t.Omitted, strings.Join(users, ","))
}

// window makes a decider whose model sees at most most turns, this one included; it answers with what it sees. Summaries consist of the
// messages of their turns.
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

// summaries returns the recorded summaries: number of turns, text, and number of omitted turns.
func summaries(t *testing.T, s storage.Store) (list []string) {
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

// TestSummaryWhileTurnsAreOpen has turns begin, end and be canceled between the summaries: the fold of the log must drop
// exactly the turns that were summarised.
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
		w.publish(&transport.Event{ID: "stop", Time: time.Now(), From: "user", ContextID: theContext, Payload: &transport.Cancel{Turn: turnOf("m4")}})
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

// TestSummariesOfOneDecisionAreOne needs several summaries to make the prompt fit, one of which fails.
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

// TestSummaryThatCannotBeMade checks that the turns are left out and counted when a summary fails.
func TestSummaryThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := window(2)
		decider.compact = func(_ context.Context, t *llm.Turn, _ bool) (*llm.Summary, error) {
			if len(t.History) < 2 {
				return nil, nil
			}
			return &llm.Summary{Turns: 1}, llm.ErrRefused
		}
		w := newWorld(t, decider)
		for i := range 5 {
			w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
		}
		w.wantAnswer("m4", "[] 3 u3")
		w.wantFold()
	})
}

// TestSummaryThatHangs checks that a slow summary may use the whole time of its decision, that nothing is forgotten because of it,
// and that it does not delay another conversation.
func TestSummaryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider, takes, most := window(1), time.Hour, 0
		decider.compact = func(ctx context.Context, turn *llm.Turn, _ bool) (*llm.Summary, error) {
			if turn.ContextID != theContext && len(turn.History) > most {
				select {
				case <-ctx.Done():
					return &llm.Summary{Turns: len(turn.History)}, ctx.Err()
				case <-time.After(takes):
					return summaryOf(turn), nil
				}
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
		answered := func(id, want string) {
			t.Helper()
			conv, err := storage.Load(t.Context(), w.store, "", "slow")
			if err != nil {
				t.Fatal(err)
			}
			if m, ok := conv.AnswerOf("user", id); !ok || !strings.Contains(transport.Text(m.Parts), want) {
				t.Errorf("answer %v to %s, want one with %q", m, id, want)
			}
			if conv.Omitted > 0 {
				t.Errorf("%d turns are forgotten", conv.Omitted)
			}
		}
		pass(2 * time.Minute) // the time of a decision
		answered("s2", "took too long")
		takes, most = 90*time.Second, 1
		slow := userEvent("s3", "s3")
		slow.ContextID = "slow"
		w.publish(slow)
		pass(2 * time.Minute)
		answered("s3", "[s1;] 0 s2")
	})
}

// TestSummaryOfAFailedDecision checks that a summary that was paid for is kept.
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

// TestFailedDecisionForgetsNothing has a model fail at a summary, and then at the decision.
func TestFailedDecisionForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider, down := window(2), true
		decide := decider.decideFunc
		decider.decideFunc = func(ctx context.Context, turn *llm.Turn, s func(string)) (*llm.Decision, error) {
			if down && len(turn.History) > 0 {
				return nil, llm.ErrUnavailable
			}
			return decide(ctx, turn, s)
		}
		compact := decider.compact
		decider.compact = func(ctx context.Context, turn *llm.Turn, force bool) (*llm.Summary, error) {
			s, err := compact(ctx, turn, force)
			if s != nil && down && turn.Summary != "" { // the first summary that it makes
				s.Text, err = "", llm.ErrRefused
			}
			return s, err
		}
		w := newWorld(t, decider)
		for i := range 5 {
			w.say(fmt.Sprint("m", i), fmt.Sprint("u", i))
		}
		if conv := w.load(); conv.Omitted != 0 {
			t.Errorf("%d turns are forgotten", conv.Omitted)
		}
		down = false
		w.say("m5", "u5")
		w.wantAnswer("m5", "[u0;u1;u2;u3;] 0 u4")
		w.wantFold()
	})
}

// TestCompactorThatMisbehaves checks that a misbehaving Compactor causes no panic and no endless loop.
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

// TestSummaryInTheMiddleOfATurn checks that a turn of several steps goes on after a summary.
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

// TestCancelDuringASummary checks that the turn ends at once, without a decision.
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
		e := &transport.Event{ID: "stop", Time: time.Now(), From: "user", ContextID: theContext, Payload: &transport.Cancel{Turn: turnOf("m1")}}
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m1", conversation.AnswerCanceled)
		if n := len(w.decisions()); n != 1 {
			t.Errorf("%d calls of the decider, want only that for the first message", n)
		}
		if got := w.load().Usage; got != each || len(summaries(t, w.store)) != 0 {
			t.Errorf("the conversation cost %+v and has the summaries %q, want %+v and none", got, summaries(t, w.store), each)
		}
		w.wantFold()
	})
}
