package nats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// scarceNode returns a node with keys whose disk has as much free as the returned variable says, and the bus of its orchestrator, which serves a gateway.
func scarceNode(t *testing.T) (n *node, cortex *Bus, dir string, free *atomic.Uint64) {
	t.Helper()
	free = new(atomic.Uint64)
	free.Store(math.MaxInt64)
	dir = keys(t, "")
	n = newNode(t, ServerOptions{Auth: dir, disk: func(string) (uint64, uint64, error) { return free.Load(), 1 << 40, nil }})
	cortex = n.dial(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := cortex.serveGateway(ctx, ""); err != nil {
		t.Fatal(err)
	}
	return n, cortex, dir, free
}

// sent returns an event to Cortex.
func sent(from, id string, payload any) *transport.Event {
	return &transport.Event{ID: id, Time: time.Now(), From: from, To: transport.Cortex, ContextID: "c-" + id, Payload: payload}
}

// progress returns an update about a task, with so many bytes.
func progress(id string, size int) *a2a.TaskStatusUpdateEvent {
	m := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(strings.Repeat("x", size)))
	m.TaskID, m.ContextID = a2a.TaskID("t-"+id), "c-"+id
	return &a2a.TaskStatusUpdateEvent{TaskID: m.TaskID, ContextID: m.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: m}}
}

// TestWhatComesWhileHeldIsBounded has people and an agent send all that they may while no work is done: each stores its part of a small allowance, and is
// then told to wait, while others and Cortex are heard. When work is done again, so are they.
func TestWhatComesWhileHeldIsBounded(t *testing.T) {
	n, cortex, dir, free := scarceNode(t)
	inbox := transport.Inbox("", transport.Cortex)
	ada := n.dial(t, &Options{Creds: userCreds(t, dir, "", "ada")})
	bob := n.dial(t, &Options{Creds: userCreds(t, dir, "", "bob")})
	w := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "w")})
	reason := strings.Repeat("x", transport.MaxCancelReason)
	publish(t, cortex, transport.Inbox("", "w"), "c", "a task")
	task, err := cortex.message(t.Context(), inboxStream, inboxPrefix+"*.w.>", 1)
	if err != nil {
		t.Fatal(err)
	}
	size := func() uint64 {
		t.Helper()
		_, bytes, err := cortex.inboxSize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	count := 0
	// until sends events until one is refused, and returns how many were not.
	until := func(b *Bus, from string, payload func(id string) any) int {
		t.Helper()
		for taken := range 200 {
			count++
			id := fmt.Sprint("e", count)
			err := b.Publish(t.Context(), inbox, sent(from, id, payload(id)))
			if errors.Is(err, transport.ErrFull) && strings.Contains(err.Error(), "no work is done") {
				return taken
			}
			if err != nil {
				t.Fatalf("%s: %v", from, err)
			}
		}
		t.Errorf("%s is never refused", from)
		return 0
	}
	cancel := func(string) any { return &transport.Cancel{TaskID: "t", Reason: reason} }
	for range 2 {
		free.Store(talkOf(1<<40)/2 - 1)
		n.srv.room.look()
		before := size()
		if got := until(ada, "user:ada", cancel); got < 10 || got > maxHeldAccount/heldSenders/len(reason) {
			t.Errorf("%d cancellations are taken while no work is done", got)
		}
		if got := until(w, "w", func(id string) any { return progress(id, 60<<10) }); got == 0 || got > 2 {
			t.Errorf("%d updates are taken while no work is done", got)
		}
		if got := until(bob, "user:bob", func(string) any { return &transport.Share{With: []string{"user:eve"}} }); got != 0 {
			t.Errorf("%d shares are taken while no work is done", got)
		}
		count++
		if err := bob.Publish(t.Context(), inbox, sent("user:bob", fmt.Sprint("e", count), cancel(""))); err != nil {
			t.Errorf("another cancels while no work is done: %v", err)
		}
		all := 0
		for n := range 2 * heldSenders {
			all += until(cortex, fmt.Sprint("user:", n), cancel)
		}
		if got := all / (maxHeldAccount / heldSenders / len(reason)); got < heldSenders/2 || got >= heldSenders {
			t.Errorf("%d of %d senders may fill their part while no work is done", got, 2*heldSenders)
		}
		if got := size() - before; got > maxHeldAccount {
			t.Errorf("%d bytes were stored while no work is done, want at most %d", got, maxHeldAccount)
		}
		for range 100 {
			count++
			if err := cortex.Publish(t.Context(), inbox, sent(transport.Cortex, fmt.Sprint("e", count), &transport.Cancel{})); err != nil {
				t.Fatalf("Cortex, while no work is done: %v", err)
			}
		}
		letter := deadMessage(transport.Inbox("", "w"), &natsgo.Msg{Subject: task.Subject, Header: task.Header, Data: task.Data}, stored{task.Sequence, task.Time}, "enough", 1, 1<<20)
		if err := w.nc.store(t.Context(), letter, attemptTimeout); err == nil || !strings.Contains(err.Error(), "no work is done") {
			t.Errorf("an agent gives a task up while no work is done: %v, want why not", err)
		}
		free.Store(math.MaxInt64)
		n.srv.room.look()
		if err := ada.Publish(t.Context(), inbox, sent("user:ada", fmt.Sprint("again", count), cancel(""))); err != nil {
			t.Errorf("when work is done again: %v", err)
		}
	}
}

// TestLongReasonsAreRefused checks that a cancellation whose reason is too long is refused before it is stored, also when its sender did not check it.
func TestLongReasonsAreRefused(t *testing.T) {
	n, _, dir, _ := scarceNode(t)
	ada := n.dial(t, &Options{Creds: userCreds(t, dir, "", "ada")})
	e := sent("user:ada", "x", &transport.Cancel{Reason: strings.Repeat("x", transport.MaxCancelReason+1)})
	m, err := encode(inboxSubject(inboxAddress{to: transport.Cortex, context: e.ContextID, from: e.From}), e, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := ada.store(t.Context(), m); !errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), "at most 4096 are allowed: shorten it") {
		t.Errorf("a reason of %d bytes: %v, want ErrInvalid and what to do", transport.MaxCancelReason+1, err)
	}
}

// TestWorkGoesOnWhileMuchWaits has many tasks wait for agents on a disk without room for as much again: their large results are taken, since the tasks wait
// for just these, large messages are refused before small ones, and the trouble of the inbox says so in all processes.
func TestWorkGoesOnWhileMuchWaits(t *testing.T) {
	n, cortex, dir, free := scarceNode(t)
	inbox := transport.Inbox("", transport.Cortex)
	ada := n.dial(t, &Options{Creds: userCreds(t, dir, "", "ada")})
	w := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "w")})
	for range 20 {
		publish(t, cortex, transport.Inbox("", "w"), "c", strings.Repeat("x", 1<<20))
	}
	_, waiting, err := cortex.inboxSize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	check := func(when string, b *Bus, from string, payload any, full bool) {
		t.Helper()
		count++
		n.srv.room.mu.Lock()
		n.srv.room.known = time.Time{} // as when some time has passed
		n.srv.room.since = 0
		n.srv.room.mu.Unlock()
		err := b.Publish(t.Context(), inbox, sent(from, fmt.Sprint("e", count), payload))
		if errors.Is(err, transport.ErrFull) != full || !full && err != nil {
			t.Errorf("%s: %v, want ErrFull %v", when, err, full)
		}
	}
	words := func(size int) *a2a.Message {
		return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(strings.Repeat("x", size)))
	}
	result := func(size int) any {
		u := progress(fmt.Sprint("e", count+1), size)
		u.Status.State = a2a.TaskStateCompleted
		return u
	}
	talk := talkOf(1 << 40)
	for _, c := range []struct {
		what                 string
		free                 uint64
		large, small, result bool // refused
		told                 string
	}{
		{"with room", talk + 2*grows*(waiting+8<<20), false, false, false, ""},
		{"with half of that", talk + grows*(waiting+8<<20), true, false, false, "new messages of more than 66 kB are refused: the disk"},
		{"without room for what waits", talk + grows*waiting/2, true, true, false, "no new messages are taken: the disk"},
		{"with hardly any room", talk + grows*200<<10, true, true, true, "no new messages are taken, results of more than 205 kB wait at their agents: the disk"},
	} {
		free.Store(c.free)
		n.srv.room.look()
		check(c.what+", a large message", ada, "user:ada", words(200<<10), c.large)
		check(c.what+", a question", ada, "user:ada", words(100), c.small)
		check(c.what+", a large result", w, "w", result(900<<10), c.result)
		check(c.what+", a result", w, "w", result(100), false)
		if got := newInbox(cortex, inbox, transport.SubscribeOptions{Concurrency: 1}).trouble().NoRoom; !strings.HasPrefix(got, c.told) || (got == "") != (c.told == "") {
			t.Errorf("%s the trouble is %q, want %q", c.what, got, c.told)
		}
	}
}

// TestShortageIsToldToOthers has a process without a server of its own say what the server refuses.
func TestShortageIsToldToOthers(t *testing.T) {
	var free atomic.Uint64
	free.Store(talkOf(1<<40) - 1)
	n := newNode(t, ServerOptions{Listen: "127.0.0.1:0", disk: func(string) (uint64, uint64, error) { return free.Load(), 1 << 40, nil }})
	b := outsider(t, n.srv, "")
	defer b.hearRoom()()
	eventually(t, "it is told", func() bool { return strings.HasPrefix(b.short(), "no new messages are taken") })
}

// TestFewInodes has the disk with much room for bytes and hardly any for files: no work is done, and everybody is told why, until there is room for both.
func TestFewInodes(t *testing.T) {
	var left atomic.Uint64
	left.Store(disk.LeastInodes)
	n := newNode(t, ServerOptions{
		Listen: "127.0.0.1:0", disk: func(string) (uint64, uint64, error) { return 1 << 40, 1 << 40, nil },
		inodes: func(_ string, least uint64) (uint64, bool) { return left.Load(), left.Load() < least },
	})
	left.Store(0)
	n.srv.room.look()
	b := outsider(t, n.srv, "")
	defer b.hearRoom()()
	eventually(t, "it is told", func() bool { return strings.Contains(b.held.now(), "no inodes left") })
	if err := n.srv.room.forMessage(1); !errors.Is(err, transport.ErrFull) || !strings.Contains(err.Error(), "no inodes left") {
		t.Errorf("a message without inodes: %v, want ErrFull and why", err)
	}
	left.Store(disk.LeastInodes - 1) // more than what begins it: hysteresis
	n.srv.room.look()
	if n.srv.room.held.Load() == nil {
		t.Error("work is done again with fewer inodes than are needed")
	}
	left.Store(disk.LeastInodes)
	n.srv.room.look()
	if why := n.srv.room.held.Load(); why != nil {
		t.Errorf("with inodes again: %s", *why)
	}
}

// TestCancelsHaveRoomOfTheirOwn checks that cancellations are accepted behind as many events of their sender as may wait, but not without end.
func TestCancelsHaveRoomOfTheirOwn(t *testing.T) {
	in := newInbox(&Bus{}, transport.Inbox("", transport.Cortex), transport.SubscribeOptions{Concurrency: 1})
	g, c := &gateway{bus: &Bus{ordered: []*inbox{in}}}, &caller{who: &auth.Identity{Role: auth.Person, ID: "user:ada"}}
	for _, test := range []struct {
		held            holding
		others, cancels bool
	}{
		{holding{maxHeldEach - 1, 0, maxHeldCancels - 1}, true, true},
		{holding{maxHeldEach, 0, 0}, false, true},
		{holding{20, 2 * maxHeldBytesEach, 0}, false, true},
		{holding{0, 0, maxHeldCancels}, true, false},
	} {
		in.holds = map[string]holding{transport.Escape(c.who.ID): test.held}
		if others, cancels := g.mayWait(c, false) == nil, g.mayWait(c, true) == nil; others != test.others || cancels != test.cancels {
			t.Errorf("behind %+v: others %v, cancellations %v", test.held, others, cancels)
		}
	}
}

// TestCardsWhileHeld has an agent announce many instances while no work is done: a few are taken, and cards that are there already are refreshed.
func TestCardsWhileHeld(t *testing.T) {
	n, _, dir, free := scarceNode(t)
	w := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "w")})
	announce := func(instance, size int) error {
		card := &transport.Card{AgentID: "w", Instance: fmt.Sprint("i", instance), TTL: time.Minute, Card: &a2a.AgentCard{Name: "w", Description: strings.Repeat("x", size)}}
		return w.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "w", Payload: card})
	}
	const early, size = 40, 4 << 10
	for i := range early {
		if err := announce(i, size); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(talkOf(1<<40)/2 - 1)
	n.srv.room.look()
	for i := range early {
		if err := announce(i, size); err != nil {
			t.Errorf("instance %d refreshes its card while no work is done: %v", i, err)
		}
	}
	if err := announce(early, size); !errors.Is(err, transport.ErrFull) || !strings.Contains(err.Error(), "no work is done") {
		t.Errorf("one more instance while no work is done: %v, want ErrFull and why", err)
	}
	if err := announce(0, 2*size); !errors.Is(err, transport.ErrFull) {
		t.Errorf("a larger card while no work is done: %v, want ErrFull", err)
	}
	free.Store(math.MaxInt64)
	n.srv.room.look()
	if err := announce(early, size); err != nil {
		t.Errorf("one more instance when work is done again: %v", err)
	}
}
