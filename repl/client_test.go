package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
)

// brief returns an event of a turn in a few words.
func brief(e *transport.Event) string {
	switch p := e.Payload.(type) {
	case *transport.Delta:
		return "delta " + p.Text
	case *a2a.Task:
		return fmt.Sprintf("task %s for %s", p.ID, taskAgent(p))
	case *a2a.TaskStatusUpdateEvent:
		word := "progress"
		if e.From == transport.Cortex {
			word = stateName(p.Status.State)
		}
		said := ""
		if p.Status.Message != nil {
			said = " " + transport.Text(p.Status.Message.Parts)
		}
		return fmt.Sprintf("%s %s%s", word, p.TaskID, said)
	case *a2a.TaskArtifactUpdateEvent:
		return fmt.Sprintf("artifact %s", p.TaskID)
	case *a2a.Message:
		return "answer " + transport.Text(p.Parts)
	}
	return fmt.Sprintf("%T", e.Payload)
}

// turn says text and returns what it yields, in a few words.
func turn(ctx context.Context, c *Client, contextID, text string) (events []string, err error) {
	for e, err := range c.Turn(ctx, contextID, text) {
		if err != nil {
			return events, err
		}
		events = append(events, brief(e))
	}
	return events, nil
}

func TestTurn(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(s *script, e *transport.Event)
		want []string
	}{
		{"an answer", func(s *script, e *transport.Event) { s.answer(e, "you said "+text(e)) }, []string{"answer you said hi"}},
		{"a stream", func(s *script, e *transport.Event) {
			s.delta(e, "a", "he")
			s.delta(e, "a", "llo")
			s.answer(e, "hello")
		}, []string{"delta he", "delta llo", "answer hello"}},
		{"delegations", func(s *script, e *transport.Event) {
			s.task(e, "t1", "clock", "time?")
			s.task(e, "t2", "echo", "hi")
			s.progress(e, "t1", "clock", "looking")
			s.live(e, "echo", &a2a.TaskArtifactUpdateEvent{TaskID: "t2", Artifact: &a2a.Artifact{ID: "1", Parts: a2a.ContentParts{}}})
			s.settle(e, "t2", a2a.TaskStateCompleted, "")
			s.settle(e, "t1", a2a.TaskStateFailed, "no clock")
			s.answer(e, "done")
		}, []string{
			"task t1 for clock", "task t2 for echo", "progress t1 looking", "artifact t2", "completed t2", "failed t1 no clock", "answer done",
		}},
		{"progress before the news of its task", func(s *script, e *transport.Event) {
			s.progress(e, "t1", "clock", "looking")
			s.progress(e, "other", "clock", "unrelated")
			s.task(e, "t1", "clock", "time?")
			s.answer(e, "done")
		}, []string{"task t1 for clock", "progress t1 looking", "answer done"}},
		{"published twice", func(s *script, e *transport.Event) {
			s.task(e, "t1", "clock", "time?")
			s.task(e, "t1", "clock", "time?")
			s.settle(e, "t1", a2a.TaskStateCompleted, "")
			s.settle(e, "t1", a2a.TaskStateCompleted, "")
			s.progress(e, "t1", "clock", "too late")
			s.answer(e, "done")
			s.answer(e, "done")
		}, []string{"task t1 for clock", "completed t1", "answer done"}},
		{"another turn", func(s *script, e *transport.Event) {
			other := *e
			other.ID = "other"
			s.delta(&other, "a", "not mine")
			s.task(&other, "t9", "clock", "not mine")
			s.progress(&other, "t9", "clock", "not mine")
			s.settle(&other, "t9", a2a.TaskStateCompleted, "not mine")
			s.answer(&other, "not mine")
			s.answer(e, "mine")
		}, []string{"answer mine"}},
		{"an impostor", func(s *script, e *transport.Event) {
			s.task(e, "t1", "clock", "time?")
			s.progress(e, "t1", "mallory", "ha")
			s.live(e, "mallory", &transport.Delta{Turn: turnOf(e), Attempt: "a", Text: "ha"})
			s.live(e, "mallory", answerTo(e, "ha"))
			s.answer(e, "real")
		}, []string{"task t1 for clock", "answer real"}},
		{"a settled task whose news was lost", func(s *script, e *transport.Event) {
			s.settle(e, "t1", a2a.TaskStateCompleted, "")
			s.answer(e, "done")
		}, []string{"completed t1", "answer done"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := newScript(t, tc.play)
			got, err := turn(t.Context(), c, "ctx", "hi")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTurnMessage(t *testing.T) {
	got := make(chan *transport.Event, 1)
	s, c := newScript(t, func(s *script, e *transport.Event) {
		got <- e
		s.answer(e, "ok")
	})
	_ = s
	c.NewID = func() string { return "id-1" }
	c.Now = func() time.Time { return time.Unix(1, 0).UTC() }
	c.User = "user:ann"
	if _, err := turn(t.Context(), c, "ctx", "hi"); err != nil {
		t.Fatal(err)
	}
	e := <-got
	m := e.Payload.(*a2a.Message)
	if e.ID != "id-1" || m.ID != "id-1" || e.From != "user:ann" || e.ContextID != "ctx" || m.ContextID != "ctx" || !e.Time.Equal(c.Now()) ||
		m.Role != a2a.MessageRoleUser || text(e) != "hi" {
		t.Errorf("message = %+v with %+v", e, m)
	}
}

func TestTurnInvalid(t *testing.T) {
	var sent atomic.Int64
	_, c := newScript(t, func(*script, *transport.Event) { sent.Add(1) })
	for name, tc := range map[string]struct{ contextID, text, want string }{
		"empty":           {"ctx", "", "message is empty"},
		"blank":           {"ctx", " \n\t", "message is empty"},
		"too large":       {"ctx", strings.Repeat("x", transport.MaxText+1), "1048577 bytes"},
		"not UTF-8":       {"ctx", "a\xffb", "not valid UTF-8"},
		"no conversation": {"", "hi", "no conversation"},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := turn(t.Context(), c, tc.contextID, tc.text)
			if !errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), tc.want) || len(events) > 0 {
				t.Errorf("Turn(%.20q) = %v, %v, want ErrInvalid with %q", tc.text, events, err, tc.want)
			}
		})
	}
	if sent.Load() != 0 {
		t.Errorf("%d messages were sent", sent.Load())
	}
}

// A live answer that got lost, and a restart of Cortex within the turn, are made up for by the log.
func TestTurnAnswerFromLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Pointer[transport.Event]
		_, c := newScript(t, func(_ *script, e *transport.Event) { heard.Store(e) })
		asked := 0
		c.Answer = func(_ context.Context, contextID, messageID string) (*a2a.Message, bool, error) {
			if asked++; asked == 1 {
				return nil, false, errors.New("the store is away")
			}
			if asked == 2 {
				return nil, false, nil
			}
			said := heard.Load()
			if contextID != "ctx" || messageID != said.ID {
				t.Errorf("Answer(%s, %s), want ctx, %s", contextID, messageID, said.ID)
			}
			return answerTo(said, "from the log"), true, nil
		}
		start := time.Now()
		got, err := turn(t.Context(), c, "ctx", "hi")
		if diff := cmp.Diff([]string{"answer from the log"}, got); diff != "" || err != nil {
			t.Errorf("events (-want +got), %v:\n%s", err, diff)
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("took %v, want three polls", took)
		}
	})
}

// The answer that is in the log may also be on its way: it comes once, and last.
func TestTurnAnswerOnce(t *testing.T) {
	for range 10 { // the choice between the two is random
		synctest.Test(t, func(t *testing.T) {
			asked, behind := make(chan struct{}), make(chan struct{})
			var said atomic.Pointer[transport.Event]
			s, c := newScript(t, func(_ *script, e *transport.Event) { said.Store(e) })
			c.Answer = func(context.Context, string, string) (*a2a.Message, bool, error) {
				close(asked)
				<-behind
				return answerTo(said.Load(), "once"), true, nil
			}
			go func() {
				<-asked
				s.delta(said.Load(), "a", "hold on")
			}()
			var got []string
			for e, err := range c.Turn(t.Context(), "ctx", "hi") {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, brief(e)); len(got) == 1 {
					s.task(said.Load(), "t1", "clock", "time?")
					s.settle(said.Load(), "t1", a2a.TaskStateCompleted, "")
					s.answer(said.Load(), "once")
					close(behind)
					synctest.Wait() // both are there when the turn goes on
				}
			}
			if diff := cmp.Diff([]string{"delta hold on", "task t1 for clock", "completed t1", "answer once"}, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A canceled turn whose live answer gets lost has its answer from the log, before Grace is over.
func TestTurnCancelAnswerFromLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said, stopped atomic.Pointer[transport.Event]
		_, c := newScript(t, func(_ *script, e *transport.Event) {
			if !said.CompareAndSwap(nil, e) {
				stopped.Store(e)
			}
			cancel()
		})
		c.Answer = func(context.Context, string, string) (*a2a.Message, bool, error) {
			return answerTo(said.Load(), "stopped"), stopped.Load() != nil, nil
		}
		got, err := turn(ctx, c, "ctx", "hi")
		if diff := cmp.Diff([]string{"answer stopped"}, got); diff != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("events (-want +got), %v:\n%s", err, diff)
		}
	})
}

func TestTurnCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var cancels []string
		var said *transport.Event
		s, c := newScript(t, func(s *script, e *transport.Event) {
			if x, ok := e.Payload.(*transport.Cancel); ok {
				mu.Lock()
				defer mu.Unlock()
				cancels = append(cancels, "inbox "+x.Turn)
				s.answer(said, "stopped")
				return
			}
			said = e
			s.delta(e, "a", "I am")
			cancel()
		})
		control, err := s.bus.Subscribe(t.Context(), transport.Control("", transport.Cortex), nil)
		if err != nil {
			t.Fatal(err)
		}
		serving, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			_ = control.Serve(serving, func(_ context.Context, e *transport.Event) error {
				mu.Lock()
				defer mu.Unlock()
				cancels = append(cancels, "control "+e.Payload.(*transport.Cancel).Turn)
				return nil
			})
		})
		c.NewID = func() string { return fmt.Sprintf("id-%d", s.n.Add(1)) }
		got, err := turn(ctx, c, "ctx", "hi")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Turn ended with %v, want context.Canceled", err)
		}
		if diff := cmp.Diff([]string{"delta I am", "answer stopped"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		synctest.Wait()
		stop()
		running.Wait()
		mu.Lock()
		defer mu.Unlock()
		if all := strings.Join(cancels, ","); len(cancels) != 2 || !strings.Contains(all, "inbox "+turnOf(said)) || !strings.Contains(all, "control "+turnOf(said)) {
			t.Errorf("cancels = %q, want the turn's in inbox and control", cancels)
		}
	})
}

// Without an answer, a canceled turn ends after Grace.
func TestTurnCancelUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, c := newScript(t, func(*script, *transport.Event) {})
		c.Answer = func(context.Context, string, string) (*a2a.Message, bool, error) {
			return nil, false, errors.New("the store is away")
		}
		start := time.Now()
		_, err := turn(ctx, c, "ctx", "hi")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the store is away") {
			t.Errorf("Turn ended with %v, want the deadline and the store's error", err)
		}
		if took := time.Since(start); took != time.Minute+2*time.Second {
			t.Errorf("took %v, want Grace after the deadline", took)
		}
	})
}

func TestTurnClosedTransport(t *testing.T) {
	ready := make(chan struct{})
	s, c := newScript(t, func(*script, *transport.Event) { close(ready) })
	go func() {
		<-ready
		_ = s.bus.Close()
	}()
	if _, err := turn(t.Context(), c, "ctx", "hi"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Turn ended with %v, want ErrClosed", err)
	}
	if _, err := turn(t.Context(), c, "ctx", "hi"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Turn on a closed transport = %v, want ErrClosed", err)
	}
}

func TestTurnBreak(t *testing.T) {
	_, c := newScript(t, func(s *script, e *transport.Event) {
		s.delta(e, "a", "one")
		s.delta(e, "a", "two")
		s.answer(e, "done")
	})
	n := 0
	for range c.Turn(t.Context(), "ctx", "hi") {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d events after break, want 1", n)
	}
}
