package nats

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
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

// TestStartOnFullDisk fills the disk of a store to the last byte: a start gives up its reserve, and what was stored can be deleted. The reserve is there
// again when there is room. Where no disk may be mounted it has nothing to fill, and says so.
func TestStartOnFullDisk(t *testing.T) {
	root := smallDisk(t, "size=96m")
	if root == "" {
		return
	}
	dir, reserve := filepath.Join(root, "nats"), filepath.Join(root, "nats", "reserve")
	start := func() (*Server, *Bus) {
		t.Helper()
		srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		b, err := Dial(t.Context(), &Options{Server: srv})
		if err != nil {
			t.Fatal(err)
		}
		return srv, b
	}
	srv, b := start()
	publish(t, b, transport.Inbox("", "away"), "c", strings.Repeat("x", 1<<20))
	srv.room.keepReserve()
	if is, err := os.Stat(reserve); err != nil || is.Size() != 8<<20 {
		t.Fatalf("the reserve is %v, %v, want 8 MiB", is, err)
	}
	b.Close()
	srv.Shutdown()

	junk, err := os.Create(filepath.Join(root, "junk"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(junk, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v, want ENOSPC", err)
	}
	junk.Close()
	srv, b = start()
	if _, err := os.Stat(reserve); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reserve on a full disk: %v, want it gone", err)
	}
	if err := b.Publish(t.Context(), transport.Inbox("", transport.Cortex), message(transport.Inbox("", transport.Cortex), "c2", "new")); !errors.Is(err, transport.ErrFull) {
		t.Errorf("a new message on a full disk: %v, want ErrFull", err)
	}
	if err := b.Erase(t.Context(), "", "c"); err != nil {
		t.Errorf("deleting on a full disk: %v, want nil", err)
	}
	select {
	case err := <-srv.Broken():
		t.Errorf("the server has given its store up: %v", err)
	default:
	}
	srv.room.keepReserve()
	if _, err := os.Stat(reserve); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reserve while the disk is full: %v, want none", err)
	}
	if err := os.Remove(junk.Name()); err != nil {
		t.Fatal(err)
	}
	srv.room.keepReserve()
	if _, err := os.Stat(reserve); err != nil {
		t.Errorf("the reserve when there is room: %v, want it", err)
	}
	b.Close()
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
	if free, _, err := diskOf(dir); err != nil || free < 16<<20 {
		t.Errorf("%d bytes are free, %v, want what new messages leave free", free, err)
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
