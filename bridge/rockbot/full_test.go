package rockbot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// narrow is a transport that refuses what a caller says, each event with the errors one after another, and then with the last one.
type narrow struct {
	transport.Transport
	mu      sync.Mutex
	source  string
	errs    []error // none: nothing is refused
	refused map[string]int
}

// narrow puts a narrow transport below Cortex's client.
func (w *world) narrow() *narrow {
	n := &narrow{Transport: w.Client.Transport, refused: map[string]int{}}
	w.Client.Transport = n
	return n
}

func (n *narrow) refuse(p *rockbottest.Program, errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.source, n.errs = p.Name, errs
}

func (n *narrow) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	n.mu.Lock()
	if len(n.errs) > 0 && e.From == sender(n.source) && t.Kind == transport.KindInbox {
		err := n.errs[min(n.refused[e.ID], len(n.errs)-1)]
		n.refused[e.ID]++
		n.mu.Unlock()
		return fmt.Errorf("no room for it: %w", err)
	}
	n.mu.Unlock()
	return n.Transport.Publish(ctx, t, e)
}

// mayRepeat checks that a response says that the same may be sent again.
func mayRepeat(t *testing.T, m *rockbottest.Message, code string) {
	t.Helper()
	if m.Type != rockbottest.Error || m.Body["isRetryable"] != true || m.Body["code"] != code || !contains(m.Text(), `send it again later .*no room for it`) {
		t.Errorf("the answer is %s %v", m.Type, m.Body)
	}
}

// TestFull has Cortex take no more of a caller, whose tasks are told so one by one, and come before the task of another: that is worked on, and so are the first ones
// when they are sent again and may be taken. What is refused for good after it could not be stored at first is told so, too.
func TestFull(t *testing.T) {
	for name, errs := range map[string][]error{
		"at once":                   {transport.ErrFull},
		"away at first":             {transport.ErrUnavailable, transport.ErrFull},
		"away at first, then wrong": {transport.ErrUnavailable, transport.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.narrow()
			one, other := w.program(&rockbottest.Program{Name: "One"}), w.program(&rockbottest.Program{Name: "Other"})
			n.refuse(one, errs...)
			w.serve()
			_, err := one.Knows(w.soon(), w.o.name, true)
			must(t, err)
			var tasks []string
			for range 2 * inPrefetch {
				tasks = append(tasks, one.Invoke(w.o.name, "", "hello"))
			}
			theirs := other.Invoke(w.o.name, "", "hello")
			for _, task := range tasks {
				m := w.response(one, task, 1)
				if errors.Is(errs[len(errs)-1], transport.ErrInvalid) {
					if m.Body["code"] != codeInvalidRequest {
						t.Errorf("the answer is %v", m.Body)
					}
					continue
				}
				mayRepeat(t, m, codeExecution)
			}
			if m := w.response(other, theirs, 1); m.Text() != "Cortex has heard it" {
				t.Errorf("the answer is %v", m.Body)
			}
			if errors.Is(errs[len(errs)-1], transport.ErrInvalid) {
				return
			}
			for note, err := range w.Store.Notes(t.Context(), "", storage.NoteReply) {
				must(t, err)
				if strings.Contains(string(note.Value), one.Name) {
					t.Errorf("there is a note of what was refused: %s", note.Value)
				}
			}
			n.refuse(one)
			for _, task := range tasks {
				one.Send(task, w.o.name, "", "hello", nil)
				if m := w.response(one, task, 2); m.Text() != "Cortex has heard it" {
					t.Errorf("the answer is %v", m.Body)
				}
			}
		})
	}
}

// TestFullReply has Cortex take no more of a caller that replies to a question, which stays open until the reply comes again.
func TestFullReply(t *testing.T) {
	w := newWorld(t)
	n := w.narrow()
	p, id := w.callers(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		if t.Message.Metadata[transport.MetaContinued] == true {
			return agents.Text("Loud: " + t.Text()), nil
		}
		return agents.InputRequired("How loud?"), nil
	})
	task := p.Invoke(id, "shout", "hello")
	at := w.response(p, task, 1).Context()
	n.refuse(p, transport.ErrUnavailable, transport.ErrFull)
	p.Send(task, id, "shout", "very", at)
	mayRepeat(t, w.response(p, task, 2), codeExecution)
	n.refuse(p)
	p.Send(task, id, "shout", "very", at)
	if m := w.response(p, task, 3); m.State() != rockbottest.Completed || !contains(m.Text(), "Loud: .*very") {
		t.Errorf("the answer is %v", m.Body)
	}
}

// TestFullCancel has Cortex take no more of a caller that cancels a task.
func TestFullCancel(t *testing.T) {
	w := newWorld(t)
	n := w.narrow()
	begun := make(chan struct{}, 1)
	p, id := w.callers(func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	task := p.Invoke(id, "shout", "slow")
	<-begun
	n.refuse(p, transport.ErrFull)
	p.Cancel(task, id)
	mayRepeat(t, w.response(p, task, 1), codeNotCancelable)
	n.refuse(p)
	p.Cancel(task, id)
	if m := w.response(p, task, 2); m.State() != rockbottest.Canceled {
		t.Errorf("the answer is %v", m.Body)
	}
}

// TestFullAgain has a task come again that Cortex has, while it takes no more of the caller: it goes on.
func TestFullAgain(t *testing.T) {
	w := newWorld(t)
	p, n := &rockbottest.Program{Name: "One"}, w.narrow()
	n.refuse(p, transport.ErrFull)
	b, err := newBridge(w.site(), &w.o, w.times)
	must(t, err)
	q := &ask{Source: "One", Task: "t", As: w.o.name, Context: "c", Rounds: []round{{Key: "m", Turn: "m"}}}
	b.asks.open[q.key()] = q
	b.asks.took(q)
	a := &acks{}
	b.asks.repeat(t.Context(), &amqp.Delivery{Acknowledger: a, MessageId: "m"}, q, &request{Message: say("user", "hello")})
	if !a.acked.Load() || b.asks.open[q.key()] != q {
		t.Errorf("acknowledged: %v, and open is %v", a.acked.Load(), b.asks.open)
	}
}
