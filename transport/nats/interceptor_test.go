package nats

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// outsider connects to a server as a process of its own does.
func outsider(t *testing.T, srv *Server, creds string) *Bus {
	t.Helper()
	b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestOtherProcessesLeaveRoom has processes without a server of their own publish while the disk of the server is nearly full: one on a server without
// keys, a replica of a tenant, and the orchestrator of another tenant with a person of it. New messages and files are refused with the reason; results, cancellations
// and erasures are not.
func TestOtherProcessesLeaveRoom(t *testing.T) {
	for name, keyed := range map[string]bool{"without keys": false, "with keys": true} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			free.Store(math.MaxInt64)
			o := ServerOptions{Listen: "127.0.0.1:0", disk: func(string) (uint64, uint64, error) { return free.Load(), 1 << 40, nil }}
			var all []*Bus
			var n *node
			if keyed {
				o.Auth = keys(t, "", "acme")
				n = newNode(t, o)
				n.dial(t, nil)
				other := outsider(t, n.srv, auth.Admin(o.Auth, "acme"))
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := other.serveGateway(ctx, "acme"); err != nil {
					t.Fatal(err)
				}
				all = []*Bus{outsider(t, n.srv, auth.Admin(o.Auth, "")), other, outsider(t, n.srv, userCreds(t, o.Auth, "acme", "ada"))}
			} else {
				n = newNode(t, o)
				all = []*Bus{outsider(t, n.srv, "")}
			}
			send := func(b *Bus, id string, payload any) error {
				e := &transport.Event{ID: id, Time: time.Now(), From: "user", To: transport.Cortex, ContextID: "c", Payload: payload}
				if b.who != nil {
					e.Tenant, e.From = b.who.Tenant, b.who.ID
				}
				if _, ok := payload.(*a2a.TaskStatusUpdateEvent); ok {
					e.From = "w"
				}
				return b.Publish(t.Context(), transport.Inbox(e.Tenant, transport.Cortex), e)
			}
			words := func() *a2a.Message { return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello")) }
			for _, b := range all {
				if err := send(b, "1", words()); err != nil {
					t.Fatalf("%v, with room: %v", b.who, err)
				}
			}
			free.Store(talkOf(1<<40) - 1)
			n.srv.room.look()
			for _, b := range all {
				err := send(b, "2", words())
				if !errors.Is(err, transport.ErrFull) || !strings.Contains(err.Error(), "can make room there, or delete conversations") {
					t.Errorf("%v, a message on a disk that is nearly full: %v, want ErrFull and what to do", b.who, err)
				}
				if err := send(b, "x", &transport.Cancel{TaskID: "t"}); err != nil {
					t.Errorf("%v cancels on a disk that is nearly full: %v, want nil", b.who, err)
				}
				o := transport.Object{ContextID: "c", From: "user", ID: "f"}
				if b.who != nil {
					o.Tenant, o.From = b.who.Tenant, b.who.ID
				}
				if err := b.PutChunk(t.Context(), o, 0, make([]byte, 100)); !filesFull(err) {
					t.Errorf("%v, a file on a disk that is nearly full: %v, want ErrFilesFull", b.who, err)
				}
				if b.who.Limited() {
					continue
				}
				done := &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
				if err := send(b, "r", done); err != nil {
					t.Errorf("%v, a result on a disk that is nearly full: %v, want nil", b.who, err)
				}
				done.Status.Message = a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(strings.Repeat("x", 1<<20)))
				if err := send(b, "large", done); !errors.Is(err, transport.ErrFull) {
					t.Errorf("%v, a large result on a disk that is nearly full: %v, want ErrFull", b.who, err)
				}
				if n, err := b.Waiting(t.Context(), transport.Inbox(o.Tenant, transport.Cortex)); err != nil || n < 3 {
					t.Errorf("%v: %d events wait, %v, want those that were taken", b.who, n, err)
				}
				if err := b.Erase(t.Context(), o.Tenant, "c"); err != nil {
					t.Errorf("%v erases on a disk that is nearly full: %v, want nil", b.who, err)
				}
			}
			free.Store(math.MaxInt64)
			n.srv.room.look()
			for _, b := range all {
				if err := send(b, "3", words()); err != nil {
					t.Errorf("%v, with room again: %v", b.who, err)
				}
			}
		})
	}
}
