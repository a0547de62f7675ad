package nats

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// filler stores chunks of a user's files.
type filler struct {
	b    *Bus
	from string
	n    int
}

func (f *filler) put(t *testing.T, size int) error {
	t.Helper()
	f.n++
	return f.b.PutChunk(t.Context(), transport.Object{ContextID: "c", From: f.from, ID: strconv.Itoa(f.n % 1000)}, 0, make([]byte, size))
}

// until stores chunks until an error for which want returns true.
func (f *filler) until(t *testing.T, what string, want func(error) bool) error {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := f.put(t, 100)
		if want(err) {
			return err
		}
		if time.Now().After(end) {
			t.Fatalf("%s, %s: %v", f.from, what, err)
		}
	}
}

func filesFull(err error) bool { return errors.Is(err, transport.ErrFilesFull) }

// TestFilesLeaveRoom makes the disk of a server full and empty again: meanwhile files are refused with advice, for users with keys and on a server
// without, and everything else is stored.
func TestFilesLeaveRoom(t *testing.T) {
	for name, keyed := range map[string]bool{"without keys": false, "with keys": true} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			free.Store(math.MaxInt64)
			o := ServerOptions{disk: func(string) (uint64, uint64, error) { return free.Load(), 1 << 40, nil }}
			all := []*filler{{from: "user:ada"}}
			var n *node
			if keyed {
				o.Auth = keys(t, "")
				n = newNode(t, o)
				all = append(all, &filler{from: transport.Cortex, b: n.dial(t, nil)})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := all[1].b.serveGateway(ctx, ""); err != nil {
					t.Fatal(err)
				}
				all[0].b = n.dial(t, &Options{Creds: userCreds(t, o.Auth, "", "ada")})
			} else {
				n = newNode(t, o)
				all[0].b = n.dial(t, nil)
			}
			for _, f := range all {
				if err := f.put(t, 100); err != nil {
					t.Fatalf("%s, with room: %v", f.from, err)
				}
			}
			free.Store(maxReserve - 1)
			n.srv.room.look()
			for _, f := range all {
				err := f.until(t, "on a disk that is nearly full", filesFull)
				if errors.Is(err, transport.ErrUnavailable) || !strings.Contains(err.Error(), "has 1.1 GB free") || !strings.Contains(err.Error(), "can make room there, or delete conversations") {
					t.Errorf("%s, on a disk that is nearly full: %v, want what to do", f.from, err)
				}
				said := &transport.Event{ID: "e", ContextID: "c", From: f.from, To: transport.Cortex, Payload: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))}
				if err := f.b.Publish(t.Context(), transport.Inbox("", transport.Cortex), said); err != nil {
					t.Errorf("%s says something on a disk that is nearly full: %v", f.from, err)
				}
			}
			free.Store(maxReserve + maxReserve/8) // within the hysteresis
			n.srv.room.look()
			if err := all[0].put(t, 100); !filesFull(err) {
				t.Errorf("with a little more: %v, want ErrFilesFull", err)
			}
			free.Store(2 * maxReserve)
			n.srv.room.look()
			for _, f := range all {
				f.until(t, "with room again", func(err error) bool { return err == nil })
			}
		})
	}
}

// TestMessagesLeaveRoom has the disk of a server become fuller than files may make it: new messages of people and agents are refused with what to
// do, and what belongs to work in progress is taken. So are they while what waits could fill the disk.
func TestMessagesLeaveRoom(t *testing.T) {
	var free atomic.Uint64
	free.Store(math.MaxInt64)
	o := ServerOptions{Auth: keys(t, ""), disk: func(string) (uint64, uint64, error) { return free.Load(), 1 << 40, nil }}
	n := newNode(t, o)
	cortex := n.dial(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := cortex.serveGateway(ctx, ""); err != nil {
		t.Fatal(err)
	}
	inbox := transport.Inbox("", transport.Cortex)
	send := func(b *Bus, from, id string, payload any) error {
		return b.Publish(t.Context(), inbox, &transport.Event{ID: id, Time: time.Now(), From: from, To: transport.Cortex, ContextID: "c", Payload: payload})
	}
	words := func() *a2a.Message { return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello")) }
	ada := n.dial(t, &Options{Creds: userCreds(t, o.Auth, "", "ada")})
	agent := n.dial(t, &Options{Creds: agentCreds(t, o.Auth, "", "w")})
	talkers := map[string]*Bus{"user:ada": ada, "w": agent, transport.Cortex: cortex}
	talk := func(when, id string, full bool) {
		t.Helper()
		n.srv.room.mu.Lock()
		n.srv.room.known = time.Time{} // as when some time has passed
		n.srv.room.mu.Unlock()
		for from, b := range talkers {
			err := send(b, from, id, words())
			if errors.Is(err, transport.ErrFull) != full || !full && err != nil {
				t.Errorf("%s, a message of %s: %v, want ErrFull %v", when, from, err, full)
			}
			if full && err != nil && !strings.Contains(err.Error(), "can make room there, or delete conversations (`cortex conversations delete`)") {
				t.Errorf("%s, %s is told %v, want what to do", when, from, err)
			}
		}
	}
	talk("with room", "1", false)
	free.Store(maxReserve - 1)
	n.srv.room.look()
	talk("where files are refused", "2", false)
	free.Store(talkOf(1<<40) - 1)
	talk("on a disk that is nearly full", "3", true)
	done := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
	if err := send(agent, "w", "r", done); err != nil {
		t.Errorf("a result on a disk that is nearly full: %v, want nil", err)
	}
	for from, b := range map[string]*Bus{"user:ada": ada, "w": agent} {
		if err := send(b, from, "x-"+from, &transport.Cancel{TaskID: "t"}); err != nil {
			t.Errorf("%s cancels on a disk that is nearly full: %v, want nil", from, err)
		}
	}
	if err := cortex.Erase(t.Context(), "", "c"); err != nil {
		t.Errorf("erasing on a disk that is nearly full: %v, want nil", err)
	}
	free.Store(2 * maxReserve)
	talk("with room again", "4", false)
	for range 20 {
		publish(t, cortex, transport.Inbox("", "away"), "c", strings.Repeat("x", 1<<20))
	}
	free.Store(talkOf(1<<40) + 20<<20) // enough for what waits, but not for what becomes of it
	eventually(t, "what waits is counted", func() bool {
		n.srv.room.mu.Lock()
		n.srv.room.known = time.Time{}
		n.srv.room.mu.Unlock()
		return errors.Is(send(ada, "user:ada", "5", words()), transport.ErrFull)
	})
}
