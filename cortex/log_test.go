package cortex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestRepeatedEvent delivers an event whose entry is in the log, as after a crash between the append and the
// acknowledgement: nothing is decided again, and the open effects are sent again with the same ids.
func TestRepeatedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
		}))
		w.say("m1", "go")
		first := w.tasksOf("alpha")[0]
		w.stop()
		synctest.Wait()
		lost := &recorder{Transport: w.bus}
		w.start(cortex.Config{Transport: lost, Decider: simple(func(*llm.Turn) *llm.Decision { panic("a logged decision was made again") })})
		pass(transport.DuplicateWindow + time.Second) // the transport has forgotten the id
		w.publish(userEvent("m1", "go"))
		again := lost.find(transport.Inbox("", "alpha"))
		if again == nil {
			t.Fatal("the open task was not sent again")
		}
		if again.ID != first.ID || again.TaskID != first.TaskID {
			t.Errorf("sent again as %s of task %s, want %s of %s", again.ID, again.TaskID, first.ID, first.TaskID)
		}
		if n := len(entries(t, w.store)); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
	})
}

// recorder records what is published.
type recorder struct {
	transport.Transport
	topics []transport.Topic
	events []*transport.Event
}

func (r *recorder) Publish(ctx context.Context, topic transport.Topic, e *transport.Event) error {
	r.topics, r.events = append(r.topics, topic), append(r.events, e)
	return r.Transport.Publish(ctx, topic, e)
}

func (r *recorder) find(topic transport.Topic) *transport.Event {
	for i := range r.topics {
		if r.topics[i] == topic {
			return r.events[i]
		}
	}
	return nil
}

// conflicting has another writer append first, once.
type conflicting struct {
	storage.Store
	other *conversation.Entry
}

func (s *conflicting) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	if other := s.other; other != nil {
		s.other = nil
		if _, err := s.Store.Append(ctx, tenant, contextID, after, other); err != nil {
			return 0, err
		}
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

func TestConflictIsResolvedByTheLog(t *testing.T) {
	decider := simple(func(t *llm.Turn) *llm.Decision { return respond(fmt.Sprintf("after %d others", len(t.History))) })
	t.Run("another event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.stop()
			other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
			w.start(cortex.Config{Decider: decider, Store: &conflicting{w.store, other}})
			w.say("m1", "second")
			w.wantAnswer("m0", "yes")
			w.wantAnswer("m1", "after 1 others")
			if got := w.orch.Stats().Conflicts; got != 1 {
				t.Errorf("%d conflicts, want 1", got)
			}
		})
	})
	t.Run("the same event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.stop()
			other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m1", "same"), Turn: "m1", Decision: respond("by the other")}
			w.start(cortex.Config{Decider: decider, Store: &conflicting{w.store, other}})
			w.say("m1", "same")
			w.wantAnswer("m1", "by the other")
			if got := w.liveAnswers(); !slices.Contains(got, "by the other") {
				t.Errorf("shown %q, want the logged answer", got)
			}
		})
	})
}

// TestLogGoesOnWhileDeciding has another writer append while the model is busy: the decision about the earlier log is
// not appended after that entry.
func TestLogGoesOnWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		other := &conversation.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
		w = newWorld(t, simple(func(turn *llm.Turn) *llm.Decision {
			if other != nil {
				if _, err := w.store.Append(t.Context(), "", theContext, 0, other); err != nil {
					t.Error(err)
				}
				other = nil
			}
			return respond(fmt.Sprintf("after %d others", len(turn.History)))
		}))
		w.say("m1", "second")
		w.wantAnswer("m0", "yes")
		w.wantAnswer("m1", "after 1 others")
	})
}

// TestStaleCacheAcknowledgesNothing delivers the result of a task that another replica sent: the fold in the cache does not have
// the task, but the log does.
func TestStaleCacheAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if t.User == "mine" {
				return respond("ok")
			}
			return respond(results(t))
		}))
		w.say("m1", "mine")
		conv, err := storage.Load(t.Context(), w.store, "", theContext)
		if err != nil {
			t.Fatal(err)
		}
		theirs := &conversation.Entry{
			Seq: 2, Time: time.Now(), Cause: userEvent("m2", "theirs"), Turn: "m2", Deadline: time.Now().Add(time.Hour),
			Decision: delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}),
		}
		if _, err := w.store.Append(t.Context(), "", theContext, conv.Version, theirs); err != nil {
			t.Fatal(err)
		}
		if err := conv.Apply(theirs); err != nil {
			t.Fatal(err)
		}
		w.finish("alpha", conv.Running()[0].ID, "A")
		w.wantAnswer("m2", "alpha COMPLETED A; ")
	})
}

func TestLoadErrorIsNotTheEndOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		task := w.onlyTask("alpha")
		w.stop()
		w.start(cortex.Config{Store: &shortReads{Store: w.store, left: 3}, Decider: simple(func(t *llm.Turn) *llm.Decision { return respond(results(t)) })})
		w.finish("alpha", task, "A")
		pass(time.Minute)
		w.wantAnswer("m1", "alpha COMPLETED A; ")
	})
}

// shortReads ends the first loads early, with an error as the contract requires.
type shortReads struct {
	storage.Store
	left int
}

func (s *shortReads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	if s.left == 0 {
		return s.Store.Load(ctx, tenant, contextID, after)
	}
	s.left--
	return func(yield func(*conversation.Entry, error) bool) { yield(nil, errors.New("the read ended early")) }
}

// TestSnapshotOfAnotherLog has the store lose a log but not its snapshot: the conversation begins anew, and is not stuck.
func TestSnapshotOfAnotherLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		old := conversation.NewConversation("", theContext)
		if err := old.Apply(&conversation.Entry{Version: 7, Seq: 1, Cause: userEvent("m0", "lost"), Turn: "m0", Decision: respond("yes")}); err != nil {
			t.Fatal(err)
		}
		if err := storage.PutSnapshot(t.Context(), w.store.(storage.Snapshots), old); err != nil {
			t.Fatal(err)
		}
		w.say("m1", "still there?")
		conv := conversation.NewConversation("", theContext)
		for _, e := range entries(t, w.store) {
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if m, ok := conv.AnswerOf("user", "m1"); !ok || transport.Text(m.Parts) != "ok" {
			t.Errorf("answer %v, want ok", m)
		}
	})
}

// TestEntryThatDoesNotFit has a store that refuses an entry of this size: the message is refused, not repeated forever, and is no dead letter, which would displace others.
func TestEntryThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		w.stop()
		w.start(cortex.Config{Decider: simple(func(*llm.Turn) *llm.Decision { return respond("ok") }), Store: tooSmall{w.store}})
		w.say("m1", "big")
		if got := w.liveAnswers(); len(got) != 1 || got[0] != "The message is too large to be kept." {
			t.Errorf("told %q", got)
		}
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			t.Errorf("dead letter %v, %v", d, err)
		}
	})
}

// tooSmall refuses every entry.
type tooSmall struct{ storage.Store }

func (tooSmall) Append(context.Context, string, string, conversation.Version, *conversation.Entry) (conversation.Version, error) {
	return 0, transport.ErrTooLarge
}

// TestSmallStore has a store that takes messages, but not long ones: the user is told in either case.
func TestSmallStore(t *testing.T) {
	for name, test := range map[string]struct{ user, say, want string }{
		"the answer does not fit":  {"hello", strings.Repeat("x", 100<<10), "The result of this does not fit into the conversation's log."},
		"the message does not fit": {strings.Repeat("x", 100<<10), "hello", "The message is too large to be kept."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := simple(func(*llm.Turn) *llm.Decision { return respond(test.say) })
				w := newWorld(t, decider)
				w.stop()
				w.start(cortex.Config{Decider: decider, Store: small{w.store}})
				w.say("m1", test.user)
				if got := w.liveAnswers(); !slices.Equal(got, []string{test.want}) {
					t.Errorf("told %.100q, want %q", got, test.want)
				}
			})
		})
	}
}

// small is a store that takes entries of up to 64 KiB.
type small struct{ storage.Store }

func (s small) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	if b, err := json.Marshal(e); err != nil || len(b) > 64<<10 {
		return 0, transport.ErrTooLarge
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// TestSnapshotAheadOfTheLog has a snapshot of entries that the log lost and then replaced.
func TestSnapshotAheadOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision { return respond("you said " + t.User) })
		w := newWorld(t, decider)
		w.say("m1", "one")
		ahead, err := storage.Load(t.Context(), w.store, "", theContext)
		if err != nil {
			t.Fatal(err)
		}
		if err := ahead.Apply(&conversation.Entry{Version: ahead.Version, Seq: 2, Cause: userEvent("lost", "lost"), Turn: "lost", Decision: respond("lost")}); err != nil {
			t.Fatal(err)
		}
		if err := storage.PutSnapshot(t.Context(), w.store.(storage.Snapshots), ahead); err != nil {
			t.Fatal(err)
		}
		w.say("m2", "two")
		w.stop()
		w.start(cortex.Config{Decider: decider})
		w.say("m3", "three")
		conv := conversation.NewConversation("", theContext)
		for _, e := range entries(t, w.store) {
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]string{"m2": "you said two", "m3": "you said three"} {
			if m, ok := conv.AnswerOf("user", id); !ok || transport.Text(m.Parts) != want {
				t.Errorf("answer to %s = %v, want %q", id, m, want)
			}
		}
	})
}
