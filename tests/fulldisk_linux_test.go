package tests

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestServiceOnFullDisk starts a service, with its console, on a disk that is filled to the last byte: the reserve of the store is given up for it, so that
// conversations can be deleted, and the console is found. Before, it ended since it could not write where the console is. Where no disk may be mounted it
// says so.
func TestServiceOnFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=128m"); err != nil {
		t.Logf("NOTHING WAS TESTED: a small disk cannot be mounted here: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(disk, "data")
	s := runService(t, data)
	s.isReady()
	for _, id := range []string{"kept", "gone"} {
		if said, err := s.asks(id, "words of "+id); err != nil || !strings.Contains(said, "words of "+id) {
			t.Fatalf("the answer is %q, %v", said, err)
		}
	}
	s.stop()
	// A service makes its reserve when it has run for a while.
	reserve := make([]byte, 32<<20)
	rand.Read(reserve) //nolint:errcheck // it never fails
	if err := os.WriteFile(filepath.Join(data, "nats", "reserve"), reserve, 0o600); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, filepath.Join(disk, "filler"))

	s = runService(t, data)
	s.address(`http://([0-9.:]+)/readyz`)
	if out, err := s.run("conversations", "delete", "--yes", "gone"); err != nil {
		t.Errorf("%v: %s\n%s", err, out, s.log)
	}
	if out, err := s.run("console"); err != nil || !strings.Contains(out, "http://") {
		t.Errorf("the console is at %q, %v", out, err)
	}
	if list, err := s.run("conversations", "list"); err != nil || !strings.Contains(list, "kept") || strings.Contains(list, "gone") {
		t.Errorf("there are %s, %v", list, err)
	}
}

// fillDisk writes a file until its disk has no byte left.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
