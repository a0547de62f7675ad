package nats

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReserveInTheWay makes the reserve where a folder is in its place: that is told, leaves no half behind, and is not tried again at once, since each try
// writes 32 MiB. A link at the name under which it is written leads nowhere.
func TestReserveInTheWay(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	o := &ServerOptions{Dir: dir, disk: func(string) (uint64, uint64, error) { return 1 << 40, 1 << 40, nil }}
	r := &diskRoom{log: slog.New(slog.NewTextHandler(&log, nil))}
	r.reserve = newReserve(o, r.log)
	file, half, other := filepath.Join(dir, "reserve"), filepath.Join(dir, "reserve.new"), filepath.Join(dir, "other")
	if err := os.MkdirAll(filepath.Join(file, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("needed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, half); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.keepReserve()
	}
	if n := strings.Count(log.String(), "there is no reserve"); n != 1 {
		t.Errorf("three looks told %d times that there is no reserve, want 1:\n%s", n, log.String())
	}
	if _, err := os.Lstat(half); !os.IsNotExist(err) {
		t.Errorf("the half is left: %v", err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "needed" {
		t.Errorf("the file that a link leads to has %d bytes now, %v", len(b), err)
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	r.reserve.next = time.Time{}
	if r.keepReserve(); r.reserve.given() != 0 {
		t.Errorf("with nothing in the way, %d bytes of the reserve are missing", r.reserve.given())
	}
}

// TestReserveIsALink starts on a full disk with a link in the place of the reserve: what it leads to is left alone, and when there is room the reserve is made.
func TestReserveIsALink(t *testing.T) {
	dir, free := t.TempDir(), uint64(0)
	file, other := filepath.Join(dir, "reserve"), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("needed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, file); err != nil {
		t.Fatal(err)
	}
	r := newReserve(&ServerOptions{Dir: dir, disk: func(string) (uint64, uint64, error) { return free, 1 << 40, nil }}, slog.New(slog.DiscardHandler))
	if r.giveUp(); r.given() != 0 {
		t.Errorf("%d bytes of a reserve that there is not were given up", r.given())
	}
	free = 1 << 40
	if err := r.make(); err != nil {
		t.Error(err)
	}
	if n, ok := r.size(); !ok || n != reserveBytes {
		t.Errorf("the reserve has %d bytes, want %d", n, reserveBytes)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "needed" {
		t.Errorf("the file that the link leads to has %d bytes now, %v", len(b), err)
	}
}
