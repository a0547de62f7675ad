package client_test

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

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// brief describes an event of a turn in a few words.
func brief(e *transport.Event) string {
	switch p := e.Payload.(type) {
	case *transport.Delta:
		return "delta " + p.Text
	case *a2a.Task:
		return fmt.Sprintf("task %s for %s", p.ID, client.TaskAgent(p))
	case *a2a.TaskStatusUpdateEvent:
		word := "progress"
		if e.From == transport.Cortex {
			word = strings.ToLower(strings.TrimPrefix(string(p.Status.State), "TASK_STATE_"))
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

// turn sends text and returns the events that Ask yields, each in a few words.
func turn(ctx context.Context, c *client.Client, contextID, text string) (events []string, err error) {
	for e, err := range c.Ask(ctx, client.Text(contextID, text)) {
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
		play func(s *clienttest.Script, e *transport.Event)
		want []string
	}{
		{"an answer", func(s *clienttest.Script, e *transport.Event) { s.Answer(e, "you said "+clienttest.Text(e)) }, []string{"answer you said hi"}},
		{"a stream", func(s *clienttest.Script, e *transport.Event) {
			s.Delta(e, "a", "he")
			s.Delta(e, "a", "llo")
			s.Answer(e, "hello")
		}, []string{"delta he", "delta llo", "answer hello"}},
		{"delegations", func(s *clienttest.Script, e *transport.Event) {
			s.Task(e, "t1", "clock", "time?")
			s.Task(e, "t2", "echo", "hi")
			s.Progress(e, "t1", "clock", "looking")
			s.Live(e, "echo", &a2a.TaskArtifactUpdateEvent{TaskID: "t2", Artifact: &a2a.Artifact{ID: "1", Parts: a2a.ContentParts{}}})
			s.Settle(e, "t2", a2a.TaskStateCompleted, "")
			s.Settle(e, "t1", a2a.TaskStateFailed, "no clock")
			s.Answer(e, "done")
		}, []string{
			"task t1 for clock", "task t2 for echo", "progress t1 looking", "artifact t2", "completed t2", "failed t1 no clock", "answer done",
		}},
		{"progress before the news of its task", func(s *clienttest.Script, e *transport.Event) {
			s.Progress(e, "t1", "clock", "looking")
			s.Progress(e, "other", "clock", "unrelated")
			s.Task(e, "t1", "clock", "time?")
			s.Answer(e, "done")
		}, []string{"task t1 for clock", "progress t1 looking", "answer done"}},
		{"published twice", func(s *clienttest.Script, e *transport.Event) {
			s.Task(e, "t1", "clock", "time?")
			s.Task(e, "t1", "clock", "time?")
			s.Settle(e, "t1", a2a.TaskStateCompleted, "")
			s.Settle(e, "t1", a2a.TaskStateCompleted, "")
			s.Progress(e, "t1", "clock", "too late")
			s.Answer(e, "done")
			s.Answer(e, "done")
		}, []string{"task t1 for clock", "completed t1", "answer done"}},
		{"another turn", func(s *clienttest.Script, e *transport.Event) {
			other := *e
			other.ID = "other"
			s.Delta(&other, "a", "not mine")
			s.Task(&other, "t9", "clock", "not mine")
			s.Progress(&other, "t9", "clock", "not mine")
			s.Settle(&other, "t9", a2a.TaskStateCompleted, "not mine")
			s.Answer(&other, "not mine")
			s.Answer(e, "mine")
		}, []string{"answer mine"}},
		{"an impostor", func(s *clienttest.Script, e *transport.Event) {
			s.Task(e, "t1", "clock", "time?")
			s.Progress(e, "t1", "mallory", "ha")
			s.Live(e, "mallory", &transport.Delta{Turn: clienttest.TurnOf(e), Attempt: "a", Text: "ha"})
			s.Live(e, "mallory", clienttest.AnswerTo(e, "ha"))
			s.Answer(e, "real")
		}, []string{"task t1 for clock", "answer real"}},
		{"another agent tries again", func(s *clienttest.Script, e *transport.Event) {
			again := clienttest.StatusUpdate("ctx", "t1", a2a.TaskStateSubmitted, "weather2 instead")
			again.Metadata = map[string]any{transport.MetaAgentID: "weather2", transport.MetaTurn: clienttest.TurnOf(e)}
			s.Task(e, "t1", "weather", "sun?")
			s.Progress(e, "t1", "weather2", "too early")
			s.Live(e, transport.Cortex, again)
			s.Progress(e, "t1", "weather2", "on it")
			s.Progress(e, "t1", "weather", "given up")
			s.Answer(e, "done")
		}, []string{"task t1 for weather", "submitted t1 weather2 instead", "progress t1 on it", "answer done"}},
		{"a settled task whose news was lost", func(s *clienttest.Script, e *transport.Event) {
			s.Settle(e, "t1", a2a.TaskStateCompleted, "")
			s.Answer(e, "done")
		}, []string{"completed t1", "answer done"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := clienttest.New(t, tc.play)
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
	s, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
		got <- e
		s.Answer(e, "ok")
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
		m.Role != a2a.MessageRoleUser || clienttest.Text(e) != "hi" {
		t.Errorf("message = %+v with %+v", e, m)
	}
}

func TestTurnInvalid(t *testing.T) {
	var sent atomic.Int64
	_, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) { sent.Add(1) })
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
				t.Errorf("Ask(%.20q) = %v, %v, want ErrInvalid with %q", tc.text, events, err, tc.want)
			}
		})
	}
	if sent.Load() != 0 {
		t.Errorf("%d messages were sent", sent.Load())
	}
}

// TestAdmit has messages and cancellations refused before they are sent.
func TestAdmit(t *testing.T) {
	var sent, asked atomic.Int64
	_, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) { sent.Add(1) })
	c.User = "user:ann"
	c.Admit = func(from string, size int) error {
		if n := asked.Add(1); from != "user:ann" || (size < len("hi")) != (n == 3) {
			t.Errorf("Admit(%q, %d), want the sender, and the size of a message", from, size)
		}
		return transport.ErrFull
	}
	_, err := c.Send(t.Context(), client.Text("ctx", "hi"))
	if !errors.Is(err, transport.ErrFull) || !errors.Is(err, client.ErrUnsent) {
		t.Errorf("Send() = %v, want ErrFull and ErrUnsent", err)
	}
	if _, err := turn(t.Context(), c, "ctx", "hi"); !errors.Is(err, transport.ErrFull) {
		t.Errorf("Ask() = %v, want ErrFull", err)
	}
	if err := c.Cancel(t.Context(), "ctx", transport.Cancel{}); !errors.Is(err, transport.ErrFull) {
		t.Errorf("Cancel() = %v, want ErrFull", err)
	}
	if sent.Load() != 0 || asked.Load() != 3 {
		t.Errorf("%d messages were sent, and %d calls were admitted, want 0 and 3", sent.Load(), asked.Load())
	}
}

// The log makes up for a lost live answer, and for a restart of Cortex within the turn.
func TestTurnAnswerFromLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Pointer[transport.Event]
		_, c := clienttest.New(t, func(_ *clienttest.Script, e *transport.Event) { heard.Store(e) })
		asked := 0
		c.Log = func(_ context.Context, asks client.Turn) (*a2a.Message, bool, error) {
			if asked++; asked == 1 {
				return nil, false, errors.New("the store is away")
			}
			if asked == 2 {
				return nil, false, nil
			}
			said := heard.Load()
			if want := (client.Turn{ContextID: "ctx", From: "user", MessageID: said.ID}); asks != want {
				t.Errorf("Log(%+v), want %+v", asks, want)
			}
			return clienttest.AnswerTo(said, "from the log"), true, nil
		}
		start := time.Now()
		got, err := turn(t.Context(), c, "ctx", "hi")
		if diff := cmp.Diff([]string{"answer from the log"}, got); diff != "" || err != nil {
			t.Errorf("events (-want +got), %v:\n%s", err, diff)
		}
		if took := time.Since(start); took != 8*time.Second { // after 2 s, 4 s since the store was away, and 8 s
			t.Errorf("took %v, want three polls", took)
		}
	})
}

// The answer may be read from the log while it also arrives live: it is yielded once, and last.
func TestTurnAnswerOnce(t *testing.T) {
	for range 10 { // the choice between the two is random
		synctest.Test(t, func(t *testing.T) {
			asked, behind := make(chan struct{}), make(chan struct{})
			var said atomic.Pointer[transport.Event]
			s, c := clienttest.New(t, func(_ *clienttest.Script, e *transport.Event) { said.Store(e) })
			c.Log = func(context.Context, client.Turn) (*a2a.Message, bool, error) {
				close(asked)
				<-behind
				return clienttest.AnswerTo(said.Load(), "once"), true, nil
			}
			go func() {
				<-asked
				s.Delta(said.Load(), "a", "hold on")
			}()
			var got []string
			for e, err := range c.Ask(t.Context(), client.Text("ctx", "hi")) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, brief(e)); len(got) == 1 {
					s.Task(said.Load(), "t1", "clock", "time?")
					s.Settle(said.Load(), "t1", a2a.TaskStateCompleted, "")
					s.Answer(said.Load(), "once")
					close(behind)
					synctest.Wait() // both have arrived when the turn goes on
				}
			}
			if diff := cmp.Diff([]string{"delta hold on", "task t1 for clock", "completed t1", "answer once"}, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A canceled turn whose live answer is lost gets its answer from the log, before Grace is over.
func TestTurnCancelAnswerFromLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said, stopped atomic.Pointer[transport.Event]
		_, c := clienttest.New(t, func(_ *clienttest.Script, e *transport.Event) {
			if !said.CompareAndSwap(nil, e) {
				stopped.Store(e)
			}
			cancel()
		})
		c.Log = func(context.Context, client.Turn) (*a2a.Message, bool, error) {
			return clienttest.AnswerTo(said.Load(), "stopped"), stopped.Load() != nil, nil
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
		s, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
			if x, ok := e.Payload.(*transport.Cancel); ok {
				mu.Lock()
				defer mu.Unlock()
				cancels = append(cancels, "inbox "+x.Turn)
				s.Answer(said, "stopped")
				return
			}
			said = e
			s.Delta(e, "a", "I am")
			cancel()
		})
		control, err := s.Bus.Subscribe(t.Context(), transport.Control("", transport.Cortex), nil)
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
		var n atomic.Int64
		c.NewID = func() string { return fmt.Sprintf("id-%d", n.Add(1)) }
		got, err := turn(ctx, c, "ctx", "hi")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Ask ended with %v, want context.Canceled", err)
		}
		if diff := cmp.Diff([]string{"delta I am", "answer stopped"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		synctest.Wait()
		stop()
		running.Wait()
		mu.Lock()
		defer mu.Unlock()
		if all := strings.Join(cancels, ","); len(cancels) != 2 || !strings.Contains(all, "inbox "+clienttest.TurnOf(said)) || !strings.Contains(all, "control "+clienttest.TurnOf(said)) {
			t.Errorf("cancels = %q, want the turn's in inbox and control", cancels)
		}
	})
}

// A canceled turn without an answer ends after Grace.
func TestTurnCancelUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) {})
		c.Log = func(context.Context, client.Turn) (*a2a.Message, bool, error) {
			return nil, false, errors.New("the store is away")
		}
		start := time.Now()
		_, err := turn(ctx, c, "ctx", "hi")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the store is away") {
			t.Errorf("Ask ended with %v, want the deadline and the store's error", err)
		}
		if took := time.Since(start); took != time.Minute+2*time.Second {
			t.Errorf("took %v, want Grace after the deadline", took)
		}
	})
}

func TestTurnClosedTransport(t *testing.T) {
	ready := make(chan struct{})
	s, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) { close(ready) })
	go func() {
		<-ready
		_ = s.Bus.Close()
	}()
	if _, err := turn(t.Context(), c, "ctx", "hi"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Ask ended with %v, want ErrClosed", err)
	}
	if _, err := turn(t.Context(), c, "ctx", "hi"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Ask on a closed transport = %v, want ErrClosed", err)
	}
}

func TestTurnBreak(t *testing.T) {
	_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
		s.Delta(e, "a", "one")
		s.Delta(e, "a", "two")
		s.Answer(e, "done")
	})
	n := 0
	for range c.Ask(t.Context(), client.Text("ctx", "hi")) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d events after break, want 1", n)
	}
}
