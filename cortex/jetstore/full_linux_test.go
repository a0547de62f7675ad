package jetstore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	embedded "github.com/cortex-orchestrator/cortex/transport/nats"
)

// TestDeletingFreesAFullDisk fills the disk of a log to the last byte: after a start on the reserve, conversations can be deleted, also where each block of
// the log has entries of all, and what they took is free then. Where no disk may be mounted it has nothing to fill, and says so.
func TestDeletingFreesAFullDisk(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=128m"); err != nil {
		t.Logf("NOTHING WAS TESTED: a small disk cannot be mounted here: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	free := func() uint64 {
		var s syscall.Statfs_t
		if err := syscall.Statfs(root, &s); err != nil {
			t.Fatal(err)
		}
		return s.Bavail * uint64(s.Bsize)
	}
	dir := filepath.Join(root, "nats")
	start := func() (*embedded.Server, *jetstore.Store) {
		srv, err := embedded.StartServer(t.Context(), &embedded.ServerOptions{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		nc, err := nats.Connect("", nats.InProcessServer(srv))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		s, err := jetstore.Open(t.Context(), nc, nil)
		if err != nil {
			t.Fatal(err)
		}
		return srv, s
	}
	const talks, entries, size = 16, 30, 100 << 10
	srv, s := start()
	last := map[string]conversation.Version{}
	for n := range entries {
		for c := range talks {
			id := fmt.Sprint("c", c)
			e := entry(uint64(n + 1))
			noise := make([]byte, size)
			rand.Read(noise) //nolint:errcheck // never fails
			e.Cause.Payload.(*a2a.Message).Parts = a2a.ContentParts{a2a.NewRawPart(noise)}
			v, err := s.Append(t.Context(), "", id, last[id], e)
			if err != nil {
				t.Fatal(err)
			}
			last[id] = v
		}
	}
	srv.Shutdown()
	fill := func(file string, n int64) error {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, rand.Reader, n)
		return errors.Join(err, f.Close())
	}
	if err := fill(filepath.Join(dir, "reserve"), 32<<20); err != nil { // as a server does that has run for a while
		t.Fatal(err)
	}
	if err := fill(filepath.Join(root, "junk"), 1<<40); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v, want ENOSPC", err)
	}

	srv, s = start()
	before := free()
	for c := range talks {
		if err := s.Erase(t.Context(), "", fmt.Sprint("c", c)); err != nil {
			t.Fatalf("deleting conversation %d on a full disk: %v", c, err)
		}
	}
	select {
	case err := <-srv.Broken():
		t.Fatalf("the server has given its store up: %v", err)
	default:
	}
	srv.Shutdown()
	if freed := int(free()) - int(before); freed < talks*entries*size/2 {
		t.Errorf("%d bytes are free after %d were deleted", freed, talks*entries*size)
	}
}
