//go:build unix

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGiveBack lets root leave files in another user's data folder: they get the owner of the folder, except those with several hard links. For other
// users nothing changes.
func TestGiveBack(t *testing.T) {
	root := os.Geteuid() == 0
	const nobody = 65534
	data, elsewhere := t.TempDir(), t.TempDir()
	own := filepath.Join(data, "nats", "remembered.json")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(own), 0o700), os.WriteFile(own, nil, 0o600), os.WriteFile(filepath.Join(elsewhere, "secret"), nil, 0o600),
		os.Link(filepath.Join(elsewhere, "secret"), filepath.Join(data, "hard")), os.Symlink(elsewhere, filepath.Join(data, "soft")),
	)
	if root {
		err = errors.Join(err, os.Chown(data, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	giveBack(data)
	for path, given := range map[string]bool{own: true, filepath.Dir(own): true, elsewhere: false, filepath.Join(elsewhere, "secret"): false} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		want := os.Geteuid()
		if root && given {
			want = nobody
		}
		if is := info.Sys().(*syscall.Stat_t); int(is.Uid) != want {
			t.Errorf("%s belongs to %d, want %d", path, is.Uid, want)
		}
	}
}

// TestPipeForStore has a pipe in the place of the store: a process that takes the folder says so, and does not wait for it.
func TestPipeForStore(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mkfifo(Store(data), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		c, err := Take(t.Context(), data)
		if err == nil {
			c.Release()
		}
		taken <- err
	}()
	select {
	case err := <-taken:
		if err == nil || !strings.Contains(err.Error(), Store(data)) {
			t.Errorf("Take = %v, want that the store is no folder", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Take waits")
	}
}
