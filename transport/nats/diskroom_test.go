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
