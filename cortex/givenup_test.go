package cortex_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
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

// brittle is a store that panics at events which Cortex sends itself.
type brittle struct {
	storage.Store
	notes
	failures bool // it accepts entries that end a turn with a failure
}

func (s brittle) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	if e.Cause.From == transport.Cortex && (!s.failures || e.Failure == "") {
		panic("cannot bear " + e.Cause.ID)
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

const givenUp = "Cortex failed repeatedly to continue this request"

// agentsInTurn gives the first message to alpha, the next one to beta.
var agentsInTurn = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) > 0 {
		return respond(results(t))
	}
	agent := "alpha"
	if t.User == "second" {
		agent = "beta"
	}
	return delegate(llm.Delegation{ID: "1", Agent: agent, Task: t.User})
})

// TestDeadlineGivenUp has Cortex fail at the deadlines of two silent agents: each turn ends nevertheless, in the log if
// possible.
func TestDeadlineGivenUp(t *testing.T) {
	for name, logged := range map[string]bool{"in the log": true, "beside it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, agentsInTurn)
				w.restart(cortex.Config{Decider: agentsInTurn, Store: brittle{w.store, w.store.(storage.Notes), logged}})
				w.say("m1", "first")
				pass(2 * time.Minute)
				w.say("m2", "second")
				pass(4 * time.Minute)
				if got := w.liveAnswers(); len(got) != 1 || !strings.HasPrefix(got[0], givenUp) {
					t.Errorf("told %q after the first deadline, want once that it is given up", got)
				}
				pass(time.Hour)
				ended := map[string]bool{}
				for _, e := range w.watched() {
					if m, ok := e.Payload.(*a2a.Message); ok && m.Metadata[transport.MetaFailed] == true && strings.HasPrefix(transport.Text(m.Parts), givenUp) {
						ended[transport.MetaString(m, transport.MetaMessage)] = true
					}
				}
				if len(ended) != 2 {
					t.Errorf("ended: %v, want m1 and m2", ended)
				}
				for _, id := range []string{"m1", "m2"} {
					_, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, "user", id)
					if inLog := strings.HasPrefix(w.answers()[id], givenUp); err != nil || ok == logged || inLog != logged {
						t.Errorf("%s: in the log %v, beside it %v, %v; want it in the log %v, else beside it", id, inLog, ok, err, logged)
					}
				}
				if got := w.deadLetters(); len(got) == 0 {
					t.Error("no dead letter")
				}
			})
		})
	}
}

// cutStore is a store whose logs can be read up to the first entry.
type cutStore struct {
	storage.Store
	notes
	cut *atomic.Bool
}

func (s cutStore) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if err == nil && s.cut.Load() && e.Seq > 1 {
				e, err = nil, conversation.ErrDamaged
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// TestDeadlineOfDamaged delivers the deadline to a conversation with a damaged log: its turns end.
func TestDeadlineOfDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, agentsInTurn)
		w.say("m1", "first")
		w.say("m2", "second")
		cut := new(atomic.Bool)
		cut.Store(true)
		w.restart(cortex.Config{Decider: agentsInTurn, Store: cutStore{w.store, w.store.(storage.Notes), cut}})
		pass(time.Hour)
		m, ok, err := storage.RefusalOf(t.Context(), w.store, "", theContext, "user", "m1")
		if err != nil || !ok || !strings.Contains(transport.Text(m.Parts), "damaged") {
			t.Errorf("m1 was told %v, %v, %v; want that the conversation is damaged", m, ok, err)
		}
		if got := w.liveAnswers(); len(got) != 1 || !strings.Contains(got[0], "cortex doctor") {
			t.Errorf("shown %q, want once what to do", got)
		}
	})
}

// forgetful is a transport that loses the first timer.
type forgetful struct {
	transport.Transport
	lost atomic.Bool
}

func (f *forgetful) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if !e.DeliverAt.IsZero() && f.lost.CompareAndSwap(false, true) {
		return nil
	}
	return f.Transport.Publish(ctx, t, e)
}

// TestUnreadableDeadline delivers a conversation's only deadline in an unreadable form: another one is set.
func TestUnreadableDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Transport: &forgetful{Transport: w.bus}})
		w.say("m1", "go")
		w.publish(unreadable("d", transport.Cortex, "deadline", ""))
		pass(time.Hour)
		if got := w.answers()["m1"]; !strings.Contains(got, "no result within 5m0s") {
			t.Errorf("answer %q, want that no result came in time", got)
		}
		w.wantFold()
	})
}

// TestUnsentGivenUp has Cortex fail at its own report that a task cannot be sent: the turn ends at once, not at the task's deadline.
func TestUnsentGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Store: brittle{w.store, w.store.(storage.Notes), false}})
		w.say("m1", "go")
		w.publish(unreadable("r1", "alpha", "task", w.onlyTask("alpha")))
		pass(2 * time.Minute)
		if got := w.liveAnswers(); len(got) != 1 || !strings.HasPrefix(got[0], givenUp) {
			t.Errorf("told %q, want once that it is given up", got)
		}
	})
}
