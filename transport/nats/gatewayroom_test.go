package nats

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// objects returns the number of files.
func (w *town) objects(t *testing.T) (n int) {
	t.Helper()
	for _, err := range w.cortex.Objects(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestRefusedFileIsRemoved makes a person store files that are refused midway: because a file is too large, because there is no room, and by the
// server. The stored part is removed with the refusal. Continuing such a file fails, and complete files stay.
func TestRefusedFileIsRemoved(t *testing.T) {
	w := newTown(t)
	const most = 4 * transport.FileChunk
	w.cortex.maxFile = most
	person := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})
	put := func(id string, n int) error {
		return person.PutChunk(t.Context(), transport.Object{ContextID: "c1", From: "user:ada", ID: id}, n, make([]byte, 100))
	}
	_, err := transport.PutFile(t.Context(), person, "", "c1", "user:ada", bytes.NewReader(make([]byte, most+1)), 1<<30)
	if left := w.objects(t); !errors.Is(err, transport.ErrTooLarge) || left > 0 {
		t.Errorf("a file that is too large: %v, and %d are left, want ErrTooLarge, and none", err, left)
	}

	w.cortex.mu.Lock()
	g := w.cortex.gateways[""]
	w.cortex.mu.Unlock()
	setMost := func(n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ownChunks = n
	}
	setMost(4)
	for n := range 2 {
		if err := put("whole", n); err != nil {
			t.Fatal(err)
		}
	}
	for n, full := range []bool{false, false, true} {
		if err := put("half", n); errors.Is(err, transport.ErrFilesFull) != full {
			t.Errorf("chunk %d of a file for which there is no room: %v", n, err)
		}
	}
	if left := w.objects(t); left != 1 {
		t.Errorf("%d files are left, want the one that is whole", left)
	}
	if err := put("half", 2); !errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), "store the whole file again") {
		t.Errorf("the rest of a file that was removed: %v, want ErrInvalid with what to do", err)
	}
	setMost(2)
	if err := put("whole", 1); !errors.Is(err, transport.ErrFilesFull) { // as after a lost answer
		t.Errorf("a chunk once more, when there is no room: %v, want ErrFilesFull", err)
	}
	if left := w.objects(t); left != 1 {
		t.Errorf("%d files are left when a chunk of a whole one came again, want that", left)
	}
	setMost(100)
	if err := put("server", 0); err != nil {
		t.Fatal(err)
	}
	w.limit(t, 1) // more is stored already
	g.room.mu.Lock()
	g.room.known, g.room.bytes = time.Now().Add(patience), math.MaxInt64 // the gateway does not know of it
	g.room.mu.Unlock()
	if err := put("server", 1); !errors.Is(err, transport.ErrFilesFull) || !strings.Contains(err.Error(), "the NATS server stores no more") {
		t.Errorf("a chunk that the server refuses: %v, want ErrFilesFull", err)
	}
	if left := w.objects(t); left != 1 {
		t.Errorf("%d files are left when the server has refused one, want the other", left)
	}
}

// TestStoppedFileIsRemoved makes a person and an agent stop storing a file: nothing of it remains.
func TestStoppedFileIsRemoved(t *testing.T) {
	w := newTown(t)
	for from, creds := range map[string]string{"user:ada": userCreds(t, w.dir, "", "ada"), "w.1": agentCreds(t, w.dir, "", "w.1")} {
		b := w.dial(t, &Options{Creds: creds})
		ctx, stop := context.WithCancel(t.Context())
		stops := readerFunc(func(p []byte) (int, error) {
			if w.objects(t) != 1 {
				t.Errorf("%s: what was stored is not there", from)
			}
			stop()
			return len(p), nil
		})
		_, err := transport.PutFile(ctx, b, "", "c1", from, io.MultiReader(bytes.NewReader(make([]byte, 2*transport.FileChunk)), stops), 1<<30)
		if left := w.objects(t); !errors.Is(err, context.Canceled) || left > 0 {
			t.Errorf("%s stops: %v, and %d files are left, want none", from, err, left)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// limit makes the server of w store at most most bytes.
func (w *town) limit(t *testing.T, most int64) {
	t.Helper()
	all, err := w.srv.ns.Jsz(&server.JSzOptions{Accounts: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, detail := range all.AccountDetails {
		account, err := w.srv.ns.LookupAccount(detail.Id)
		if err == nil {
			limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: most, MaxStreams: -1, MaxConsumers: -1}
			err = account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilesAreShared makes one person store as many files as possible while there is little room, on the disk or in the account: another person
// still finds room, everything else is stored, and deleting files makes room at once.
func TestFilesAreShared(t *testing.T) {
	const room = 100 * transport.FileChunk
	for name, quota := range map[string]bool{"disk": false, "quota": true} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Int64
			o := ServerOptions{Auth: keys(t, ""), disk: func(string) (uint64, uint64, error) { return uint64(free.Load()), 1 << 40, nil }}
			free.Store(math.MaxInt64)
			w := &town{dir: o.Auth, node: newNode(t, o)}
			w.cortex = w.dial(t, nil)
			serveTopic(t, w.cortex, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := w.cortex.serveGateway(ctx, ""); err != nil {
				t.Fatal(err)
			}
			w.cortex.mu.Lock()
			g := w.cortex.gateways[""]
			w.cortex.mu.Unlock()
			if quota {
				w.limit(t, room+minReserve)
			} else {
				free.Store(room + maxReserve)
			}
			// fill stores files until there is no room, and returns their number.
			fill := func(name, contextID string) (int, error) {
				b := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", name)})
				for n := range 200 {
					g.room.mu.Lock()
					g.room.known = time.Time{} // as after a second
					g.room.mu.Unlock()
					o := transport.Object{ContextID: contextID, From: "user:" + name, ID: strconv.Itoa(n)}
					if err := b.PutChunk(t.Context(), o, 0, make([]byte, transport.FileChunk)); err != nil {
						return n, err
					}
					if !quota {
						free.Add(-transport.FileChunk)
					}
				}
				return 200, nil
			}
			within := func(who string, got int, err error, least, most int) {
				t.Helper()
				if !errors.Is(err, transport.ErrFilesFull) || errors.Is(err, transport.ErrUnavailable) || got < least || got > most {
					t.Errorf("%s stores %d files, %v; want %d to %d, and ErrFilesFull", who, got, err, least, most)
				}
				if err != nil && (!strings.Contains(err.Error(), "nobody keeps more than is left to others") || !strings.Contains(err.Error(), "ask whoever runs Cortex")) {
					t.Errorf("%s is told %v, want why, and what to do", who, err)
				}
			}
			n, err := fill("ada", "c1")
			within("ada", n, err, 45, 51)
			n, err = fill("bob", "c2")
			within("bob", n, err, 20, 27)
			for range 20 { // other data than files
				publish(t, w.cortex, transport.Inbox("", "nobody"), "c3", strings.Repeat("x", 1<<18))
			}
			if err := w.cortex.Erase(t.Context(), "", "c1"); err != nil {
				t.Fatal(err)
			}
			if !quota {
				free.Add(int64(n) * transport.FileChunk)
			}
			if n, err = fill("ada", "c1"); n < 10 {
				t.Errorf("when hers are deleted ada stores %d files, %v, want more", n, err)
			}
		})
	}
}

// TestSlowRoomStopsNobody has the server answer late how much room there is: meanwhile others go on with what was known, and what they store is not
// forgotten when the answer comes.
func TestSlowRoomStopsNobody(t *testing.T) {
	ns, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	defer ns.Shutdown()
	nc, err := natsgo.Connect("", natsgo.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	asked, err := nc.SubscribeSync(jsAPI + "INFO")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{bus: &Bus{}, ctx: t.Context(), counts: &conn{Conn: nc}}
	s := &g.room
	s.known, s.bytes = time.Now().Add(-recountEvery/2), 500
	first := make(chan int64, 1)
	go func() {
		left, err := s.left(g, false)
		if err != nil {
			t.Error(err)
		}
		first <- left
	}()
	m, err := asked.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := s.left(g, false); err != nil || left != 500 {
		t.Errorf("while the server is asked, %d bytes are left, %v, want those that were known", left, err)
	}
	s.take(100)
	if n, _, _ := asked.Pending(); n > 0 {
		t.Errorf("the server is asked %d times more", n)
	}
	if err := m.Respond([]byte(`{"storage":1,"limits":{"max_storage":10000000000}}`)); err != nil {
		t.Fatal(err)
	}
	want := bytesLeft(10_000_000_000-1, reserveOf(10_000_000_000)) - 100
	if left := receive(t, first); left != want {
		t.Errorf("%d bytes are left by the answer, want %d", left, want)
	}
	if left, err := s.left(g, false); err != nil || left != want {
		t.Errorf("%d bytes are left after the answer, %v, want %d", left, err, want)
	}
}
