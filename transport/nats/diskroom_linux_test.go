package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// TestSmallDisk fills a small disk with files as fast as possible: the disk is never full, and the server keeps working. Where no disk can be
// mounted, the test only logs that.
func TestSmallDisk(t *testing.T) {
	dir := smallDisk(t, "size=96m")
	if dir == "" {
		return
	}
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	b, err := Dial(t.Context(), &Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f := &filler{b: b, from: "user"}
	for end := time.Now().Add(patience); ; {
		err := f.put(t, transport.FileChunk)
		if filesFull(err) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("chunk %d: %v", f.n, err)
		}
	}
	t.Logf("%d chunks of %d were taken", f.n-1, transport.FileChunk)
	if err := b.keep(t.Context()); err != nil {
		t.Errorf("something else is stored: %v", err)
	}
	select {
	case err := <-srv.Broken():
		t.Errorf("the server has given its store up: %v", err)
	default:
	}
	// Removing files makes room again.
	if err := b.removeFiles(t.Context(), filePrefix+">"); err != nil {
		t.Fatal(err)
	}
	f.until(t, "when files were removed", func(err error) bool { return err == nil })
}

// TestTenantFillsDisk fills the disk with the credentials of one tenant's orchestrator, in streams of its own: the server keeps its store, says which tenant has
// most, also after a start, conversations of another tenant can be deleted, and all go on when what is too much is. Where no disk may be mounted it has nothing to fill, and says so.
func TestTenantFillsDisk(t *testing.T) {
	dir := smallDisk(t, "size=128m")
	if dir == "" {
		return
	}
	trust := keys(t, "", "acme")
	cortex := transport.Inbox("", transport.Cortex)
	var said syncedLog
	start := func() (*Server, *Bus) {
		t.Helper()
		srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Auth: trust, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		b, err := Dial(t.Context(), &Options{Server: srv})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return srv, b
	}
	admin := func(srv *Server) jetstream.JetStream {
		t.Helper()
		nc, err := natsgo.Connect("", natsgo.InProcessServer(srv), natsgo.UserCredentials(auth.Admin(trust, "acme")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	fill := func(srv *Server, js jetstream.JetStream, subject string, size int) error {
		for n := range (256 << 20) / size {
			f, err := js.PublishAsync(fmt.Sprintf("%s.%d", subject, n), make([]byte, size))
			if err != nil {
				return err
			}
			select {
			case err := <-f.Err():
				return err
			case <-f.Ok():
			case err := <-srv.Broken():
				return fmt.Errorf("the server has given its store up: %w", err)
			case <-time.After(patience):
				return errors.New("no answer")
			}
		}
		return nil
	}
	whole := func(srv *Server) {
		t.Helper()
		select {
		case err := <-srv.Broken():
			t.Fatalf("the server has given its store up: %v", err)
		default:
		}
	}
	srv, b := start()
	tenant := admin(srv)
	publish(t, b, cortex, "c", "before")
	const olds = 8
	for n := range olds {
		publish(t, b, transport.Inbox("", "away"), fmt.Sprint("old", n), strings.Repeat("x", 1<<20))
	}
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}}); err != nil { // with blocks as those of Cortex's log
		t.Fatal(err)
	}
	for range olds {
		if err := b.store(t.Context(), &natsgo.Msg{Subject: "log", Data: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tenant.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>", "t.>"}}); err != nil {
		t.Fatal(err)
	}
	for i, subject := range []string{"s", "t"} {
		for _, size := range []int{1 << 20, 1 << 10} {
			if err := fill(srv, tenant, subject, size); err == nil || !strings.Contains(err.Error(), "resource limits exceeded") {
				t.Errorf("filling the disk: %v, want a refusal", err)
			}
		}
		whole(srv)
		more := 0
		for ; more < 2*fewStreams; more++ {
			if _, err := tenant.CreateStream(t.Context(), jetstream.StreamConfig{Name: fmt.Sprintf("MORE%d-%d", i, more), Subjects: []string{fmt.Sprintf("more.%d.%d", i, more)}}); err != nil {
				break
			}
		}
		if more >= fewStreams {
			t.Errorf("%d streams more are made", more)
		}
		eventually(t, "the disk has what is left, and no more", func() bool { // where a deletion has begun a file, the earlier one becomes smaller within seconds
			_ = fill(srv, tenant, subject, 1<<10) // it was refused more than its part of the room at that time, which is more now
			free, size, err := disk.Room(dir)
			return err == nil && free >= leaves(size)-2*eraseSlack && free < leaves(size)+2*eraseSlack
		})
		if err := b.Publish(t.Context(), cortex, message(cortex, "c2", "new")); err != nil && !errors.Is(err, transport.ErrFull) {
			t.Errorf("a new message on a full disk: %v, want ErrFull, or none where just enough is free", err)
		}
		if !strings.Contains(said.String(), "most=\"cortex.acme with ") {
			t.Errorf("who has most is not said: %s", said.String())
		}
		if i == 0 {
			if err := b.keep(t.Context()); err != nil {
				t.Errorf("a note of another tenant: %v", err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var all errgroup.Group
			all.Go(func() error {
				for ctx.Err() == nil {
					_ = fill(srv, tenant, subject, 1<<10)
				}
				return nil
			})
			for n := range olds {
				erase(t, b, fmt.Sprint("old", n))
				if err := b.eraseMessage(t.Context(), "LOG", uint64(n+1)); err != nil {
					t.Errorf("an entry of the log is not erased: %v", err)
				}
			}
			stop()
			_ = all.Wait()
		}
		whole(srv)
		if i == 0 { // what is there is no reason not to start
			b.Close()
			srv.Shutdown()
			srv, b = start()
			tenant = admin(srv)
		}
	}
	if err := tenant.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new messages are taken again", func() bool { return b.Publish(t.Context(), cortex, message(cortex, "c", "after")) == nil })
	eventually(t, "the tenant may store again", func() bool {
		_, err := tenant.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}, MaxBytes: 1 << 30})
		return err == nil
	})
	whole(srv)
}

// TestStartOnFullDisk fills the disk of a store to the last byte, twice: each start gives up half of the reserve, does none of the work that waits, and
// what was stored can be deleted. When there is room, the work is done, and the reserve is whole again. Where no disk may be mounted it has nothing to
// fill, and says so.
func TestStartOnFullDisk(t *testing.T) {
	root := smallDisk(t, "size=128m")
	if root == "" {
		return
	}
	dir, reserve := filepath.Join(root, "nats"), filepath.Join(root, "nats", "reserve")
	cortex := transport.Inbox("", transport.Cortex)
	start := func() (srv *Server, b *Bus, got chan string) {
		t.Helper()
		srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		if b, err = Dial(t.Context(), &Options{Server: srv}); err != nil {
			t.Fatal(err)
		}
		return srv, b, make(chan string, 100)
	}
	work := func(b *Bus, got chan string) {
		t.Helper()
		s, err := b.Subscribe(t.Context(), cortex, &transport.SubscribeOptions{Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { //nolint:errcheck // until the bus is closed
			got <- e.ContextID
			return nil
		})
	}
	size := func(want int64) {
		t.Helper()
		if is, err := os.Stat(reserve); err != nil || is.Size() != want<<20 {
			t.Fatalf("the reserve is %v, %v, want %d MiB", is, err, want)
		}
	}
	srv, b, _ := start()
	publish(t, b, cortex, "c", "accepted")
	for n := range 30 {
		publish(t, b, transport.Inbox("", "away"), fmt.Sprint("old", n), strings.Repeat("x", 1<<20))
	}
	srv.room.keepReserve()
	size(32)

	var junk []string
	var got chan string
	for n, half := range []int64{16, 0} {
		b.Close()
		srv.Shutdown()
		junk = append(junk, filepath.Join(root, fmt.Sprint("junk", n)))
		f, err := os.Create(junk[n])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("filling the disk: %v, want ENOSPC", err)
		}
		f.Close()
		srv, b, got = start()
		size(half)
		work(b, got)
		if err := b.Publish(t.Context(), cortex, message(cortex, "c2", "new")); !errors.Is(err, transport.ErrFull) {
			t.Errorf("a new message on a full disk: %v, want ErrFull", err)
		}
		for _, other := range []*Bus{b, outsider(t, srv, "")} {
			defer other.hearRoom()()
			eventually(t, "it is told that no work is done", func() bool {
				err := other.Healthy(t.Context())
				return err != nil && strings.Contains(err.Error(), "no work is done")
			})
		}
		before, _, err := disk.Room(dir)
		if err != nil {
			t.Fatal(err)
		}
		for c := range 10 {
			erase(t, b, fmt.Sprint("old", 10*n+c)) // also on a full disk
		}
		eventually(t, "deleting frees space", func() bool {
			free, _, err := disk.Room(dir)
			return err == nil && free >= before+4<<20
		})
		select {
		case err := <-srv.Broken():
			t.Errorf("the server has given its store up: %v", err)
		case c := <-got:
			t.Errorf("work on %s is done on a full disk", c)
		default:
		}
		srv.room.keepReserve()
		size(half)
	}
	for _, name := range junk {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case c := <-got:
		if c != "c" {
			t.Errorf("the work that waited is %s", c)
		}
	case <-time.After(patience):
		t.Error("with room again, the work that waited is not done")
	}
	srv.room.keepReserve()
	size(32)
	b.Close()
}

// TestDeletionOnFullDisk deletes a conversation until the server cannot write any more. What it had and could not write is not called lost at any
// start after that, and what was stored is there: the block that has to be written anew does not fit. Where no disk can be mounted, the test only logs that.
func TestDeletionOnFullDisk(t *testing.T) {
	root := smallDisk(t, "size=120m")
	if root == "" {
		return
	}
	n := &node{opts: ServerOptions{Dir: filepath.Join(root, "nats")}}
	n.start(t)
	b := n.dial(t, nil)
	for _, id := range []string{"gone", "stays", "stays-too"} {
		publish(t, b, orchestratorInbox, id, strings.Repeat("words ", 3000))
	}
	n.srv.Remember(time.Now())
	junk := filepath.Join(root, "junk")
	f, err := os.Create(junk)
	if err != nil {
		t.Fatal(err)
	}
	free, _, err := disk.Room(root)
	if err == nil {
		_, err = io.CopyN(f, zeros{}, int64(free)-40<<10)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := b.Erase(t.Context(), "", "gone"); err == nil {
		t.Fatal("there is room for the deletion: the test shows nothing")
	}
	select {
	case <-n.srv.Broken():
	case <-time.After(patience):
		t.Fatal("the server has not given up its store: the test shows nothing")
	}
	n.srv.Remember(time.Now().Add(time.Hour))
	b.Close()
	n.stop()
	for again := range 3 {
		n.start(t)
		for _, f := range n.srv.Found() {
			if f.Level == storecheck.Lost || f.Level == storecheck.Recent {
				t.Errorf("start %d: found %+v", again, f)
			}
		}
		if again == 0 {
			if err := os.Remove(junk); err != nil { // it was still full when it started
				t.Fatal(err)
			}
		}
		b := n.dial(t, nil)
		if left, err := b.Waiting(t.Context(), orchestratorInbox); err != nil || left < 2 {
			t.Errorf("start %d: %d messages wait, %v, want those of conversations that stay", again, left, err)
		}
		b.Close()
		n.stop()
	}
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestFloodFromOutside has processes of their own flood Cortex with messages as fast as possible, in all accounts of a server with a small disk: the disk is
// never full, and each sender is told. Where no disk can be mounted, the test only logs that.
func TestFloodFromOutside(t *testing.T) {
	dir := smallDisk(t, "size=160m")
	if dir == "" {
		return
	}
	trust := keys(t, "", "acme")
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: "127.0.0.1:0", Auth: trust})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	var all errgroup.Group
	for n := range 8 {
		tenant := []string{"", "acme"}[n%2]
		b := outsider(t, srv, auth.Admin(trust, tenant))
		all.Go(func() error {
			inbox := transport.Inbox(tenant, transport.Cortex)
			for end := time.Now().Add(patience); ; {
				err := b.Publish(t.Context(), inbox, message(inbox, "c", strings.Repeat("x", 200<<10)))
				if errors.Is(err, transport.ErrFull) {
					return nil
				}
				if err != nil || time.Now().After(end) {
					return fmt.Errorf("sender %d: %w", n, cmp.Or(err, errors.New("never refused")))
				}
			}
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-srv.Broken():
		t.Errorf("the server has given its store up: %v", err)
	default:
	}
	if free, _, err := disk.Room(dir); err != nil || free < 16<<20 {
		t.Errorf("%d bytes are free, %v, want what new messages leave free", free, err)
	}
}

// TestNoMoreFiles starts on a disk that has room, and as many files as it may have: the error says what to do. Where no disk can be mounted, the test only
// logs that.
func TestNoMoreFiles(t *testing.T) {
	dir := smallDisk(t, "size=64m,nr_inodes=4")
	if dir == "" {
		return
	}
	var full error
	for n := 0; full == nil; n++ {
		full = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600)
	}
	for range 2 { // with none, and with too few for a store
		if err := checkFolder(dir); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), " inodes left on its disk") {
			t.Errorf("checkFolder() = %v, after %v, want that files are to be removed", err, full)
		}
		_ = os.Remove(filepath.Join(dir, "0"))
	}
}

// smallDisk mounts a small disk; it returns "" where that is not possible.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, size); err != nil {
		t.Logf("NOTHING WAS TESTED: a small disk cannot be mounted here: %v", err)
		return ""
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
