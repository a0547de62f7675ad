package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestReplayIsInterrupted interrupts ReplayDead after its first step and repeats it: the event is delivered once.
func TestReplayIsInterrupted(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	inbox := transport.Inbox("", "worker")
	reason := transport.Permanent(errors.New("not yet"))
	handled := make(chan string)
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error {
		handled <- text(e)
		if text(e) == "again" {
			return reason
		}
		return nil
	})
	publish(t, b, inbox, "c1", "again")
	receive(t, handled)
	eventually(t, "it is a dead letter", func() bool { return len(dead(t, b)) == 1 })
	id := dead(t, b)[0].ID
	raw, err := b.findDead(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	first, err := replayed("", raw)
	if err == nil {
		err = b.store(t.Context(), first)
	}
	if err != nil {
		t.Fatal(err)
	}
	receive(t, handled)
	eventually(t, "it is given up again", func() bool { return len(dead(t, b)) == 2 })

	if err := n.dial(t, nil).ReplayDead(t.Context(), "", id); err != nil {
		t.Fatal(err)
	}
	publish(t, b, inbox, "c1", "the next")
	if got := receive(t, handled); got != "the next" {
		t.Errorf("%q came for a second time", got)
	}
	if left := dead(t, b); len(left) != 1 || left[0].ID == id {
		t.Errorf("%d dead letters, want only the one that was given up again", len(left))
	}
}

// TestGivenUpOnce makes an agent give up a task twice without acknowledging it: there is one dead letter, even if the second time is much later.
func TestGivenUpOnce(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "sleeper"))
	inbox := transport.Inbox("", "sleeper")
	task, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1)
	if err != nil {
		t.Fatal(err)
	}
	giveUp := func() (int, string) {
		return in.says(t, deadSubject(inbox, task.Subject), "message", words, headerSubject, task.Subject, "Nats-Msg-Id", fmt.Sprint(task.Sequence, ".1"), headerReason, `"no"`)
	}
	if code, why := giveUp(); code != 0 {
		t.Fatalf("it is answered with %d %q", code, why)
	}
	if _, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1); !errors.Is(err, transport.ErrNotFound) {
		t.Errorf("the task is still in the inbox: %v", err)
	}
	if code, why := giveUp(); code != codeNotFound {
		t.Errorf("for the second time it is answered with %d %q, want %d", code, why, codeNotFound)
	}
	if letters := dead(t, w.cortex); len(letters) != 1 || letters[0].Reason != "no" {
		t.Errorf("%d dead letters, want one", len(letters))
	}
}

// TestAnswersAreNoDeadLetters makes an agent give up what is no task, with a long reason: it is erased, and no dead letter displaces those of others. A
// task leaves one, with as much of the reason as fits a line.
func TestAnswersAreNoDeadLetters(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "sleeper"))
	inbox := transport.Inbox("", "sleeper")
	answer := message(inbox, "c1", "an answer")
	answer.From = transport.Cortex
	if err := w.cortex.Publish(t.Context(), inbox, answer); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); ; {
		is, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), seq)
		if errors.Is(err, transport.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		reason := `"` + strings.Repeat("n", maxReason) + `"`
		code, why := in.says(t, deadSubject(inbox, is.Subject), "message", words, headerSubject, is.Subject, "Nats-Msg-Id", fmt.Sprint(is.Sequence, ".1"), headerReason, reason)
		if code != 0 {
			t.Fatalf("it is answered with %d %q", code, why)
		}
		seq = is.Sequence + 1
	}
	if _, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1); !errors.Is(err, transport.ErrNotFound) {
		t.Errorf("something is still in the inbox: %v", err)
	}
	if letters := dead(t, w.cortex); len(letters) != 1 || letters[0].Event.TaskID != "t1" || len(letters[0].Reason) != maxAgentReason {
		t.Errorf("%d dead letters, want one of the task, with a short reason: %+v", len(letters), letters)
	}
}

// TestDeadLettersOfOthersStay has an agent give up more than its share of what is kept of dead letters: it is refused, the task stays in its inbox, and
// another agent may give up its own.
func TestDeadLettersOfOthersStay(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "thief"))
	giveUp := func(in *intruder) (code int) {
		t.Helper()
		inbox := transport.Inbox("", in.who.ID)
		is, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1)
		if err != nil {
			t.Fatal(err)
		}
		code, _ = in.says(t, deadSubject(inbox, is.Subject), "message", words, headerSubject, is.Subject, "Nats-Msg-Id", fmt.Sprint(is.Sequence, ".1"), headerReason, `"no"`)
		return code
	}
	const size = 1 << 20
	inbox, most := transport.Inbox("", "thief"), letterBurst/size+1
	for n := range most {
		task := message(inbox, "c1", strings.Repeat("x", size-1000))
		task.TaskID = a2a.TaskID(fmt.Sprint("t", n))
		if err := w.cortex.Publish(t.Context(), inbox, task); err != nil {
			t.Fatal(err)
		}
		if code := giveUp(in); n < most-2 && code != 0 {
			t.Fatalf("task %d is answered with %d", n, code)
		} else if n == most-1 && code != 429 {
			t.Fatalf("task %d, which is too much, is answered with %d", n, code)
		}
	}
	if _, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1); err != nil {
		t.Errorf("the task that could not be given up: %v", err)
	}
	if code := giveUp(w.intruder(t, agentCreds(t, w.dir, "", "sleeper"))); code != 0 {
		t.Errorf("another agent is answered with %d", code)
	}
}

// TestNoLetterNoShare has the server refuse an agent's dead letters, more than its share has room for: nothing was given up, and its share is whole afterwards.
func TestNoLetterNoShare(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, agentCreds(t, w.dir, "", "thief"))
	inbox := transport.Inbox("", "thief")
	const size = 1 << 20
	task := message(inbox, "c1", strings.Repeat("x", size))
	task.TaskID = "t"
	if err := w.cortex.Publish(t.Context(), inbox, task); err != nil {
		t.Fatal(err)
	}
	is, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1)
	if err != nil {
		t.Fatal(err)
	}
	giveUp := func() int {
		t.Helper()
		code, _ := in.says(t, deadSubject(inbox, is.Subject), "message", words, headerSubject, is.Subject, "Nats-Msg-Id", fmt.Sprint(is.Sequence, ".1"), headerReason, `"no"`)
		return code
	}
	w.limit(t, 1) // more is stored already
	for n := range letterBurst/size + 2 {
		if code := giveUp(); code == 0 || code == 429 {
			t.Fatalf("attempt %d, which the server refuses, is answered with %d", n, code)
		}
	}
	w.limit(t, -1)
	if code := giveUp(); code != 0 {
		t.Errorf("it is answered with %d when there is room", code)
	}
}

// TestAgentsShareDeadLetters has agents give up, each within its share, as much as half of what is kept: what further ones give up stays in their inboxes, so that
// the dead letters of people have room.
func TestAgentsShareDeadLetters(t *testing.T) {
	w := newTown(t)
	w.cortex.mu.Lock()
	g := w.cortex.gateways[""]
	w.cortex.mu.Unlock()
	if !g.letters.AllowN(time.Now(), lettersBurst-letterLeast) {
		t.Fatal("the share is not whole")
	}
	for n, want := range []int{0, 429} {
		id := fmt.Sprint("a", n)
		inbox, in := transport.Inbox("", id), w.intruder(t, agentCreds(t, w.dir, "", id))
		task := message(inbox, "c1", "x")
		task.TaskID = "t"
		if err := w.cortex.Publish(t.Context(), inbox, task); err != nil {
			t.Fatal(err)
		}
		is, err := w.cortex.message(t.Context(), inboxStream, inboxFilter(inbox), 1)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := in.says(t, deadSubject(inbox, is.Subject), "message", words, headerSubject, is.Subject, "Nats-Msg-Id", fmt.Sprint(is.Sequence, ".1"), headerReason, `"no"`); code != want {
			t.Errorf("agent %d is answered with %d, want %d", n, code, want)
		}
	}
}

// TestDiscardedDeadLettersAreTold stores more dead letters than are kept, while somebody serves: how many were discarded is told, once, and those that somebody
// removes are none of them.
func TestDiscardedDeadLettersAreTold(t *testing.T) {
	n := newNode(t, ServerOptions{})
	var said syncedLog
	b := n.dial(t, &Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	var d discarded
	look := func(want int64) {
		t.Helper()
		d.next = time.Time{}
		d.look(t.Context(), b)
		if got := d.count.Load(); got != want {
			t.Errorf("%d dead letters were discarded, want %d", got, want)
		}
	}
	put := func(n, size int) {
		t.Helper()
		for range n {
			m := &natsgo.Msg{Subject: deadSubject(orchestratorInbox, inboxSubject(inboxAddress{to: transport.Cortex, context: "c", from: "user"})), Data: make([]byte, size)}
			if err := b.store(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	look(0)
	const most, all = transport.MaxPayload, maxDeadBytes / transport.MaxPayload // with their subjects, one more than are kept
	put(2, 1)
	look(0)
	if err := b.RemoveDead(t.Context(), "", "1"); err != nil {
		t.Fatal(err)
	}
	look(0)
	put(all, most)
	look(2)
	put(3, most)
	look(5)
	if got := strings.Count(said.String(), "dead letters are discarded"); got != 1 {
		t.Errorf("it is said %d times: %s", got, said.String())
	}
	s, err := b.Subscribe(t.Context(), orchestratorInbox, &transport.SubscribeOptions{Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(t.Context(), func(context.Context, *transport.Event) error { return nil }) //nolint:errcheck // until the bus is closed
	var last time.Time
	eventually(t, "the subscriber of Cortex tells", func() bool {
		if time.Since(last) > discardedEvery/4 { // it tells of what came after its first look
			put(1, most)
			last = time.Now()
		}
		return s.(transport.Troubled).Trouble().Discarded > 0
	})
}

// TestRefusedLettersTakeNothing refuses dead letters of two agents in turn: what all agents have is left as it was.
func TestRefusedLettersTakeNothing(t *testing.T) {
	now := time.Now()
	g := &gateway{letters: rate.NewLimiter(lettersPace, lettersBurst)}
	one, other := &caller{letters: rate.NewLimiter(letterPace, letterBurst)}, &caller{letters: rate.NewLimiter(letterPace, letterBurst)}
	if !g.letters.AllowN(now, lettersBurst-letterLeast) {
		t.Fatal("the share is not whole")
	}
	for range 1000 {
		for _, c := range []*caller{one, other} {
			if _, ok := g.payLetter(c, now, letterLeast+1); ok {
				t.Fatal("more is given than there is")
			}
		}
	}
	if got := one.letters.TokensAt(now); got != letterBurst {
		t.Errorf("an agent has %.0f bytes left, want %d", got, letterBurst)
	}
	refund, ok := g.payLetter(one, now, letterLeast)
	if !ok {
		t.Fatal("what is left is refused")
	}
	if refund(); g.letters.TokensAt(now) < letterLeast {
		t.Errorf("all agents have %.0f bytes left, want %d", g.letters.TokensAt(now), letterLeast)
	}
}
