//go:build unix

package storecheck

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUnreadable has unreadable things in place of a file or a folder: they are found and set aside, a pipe does not block the check, and a server
// has the rest.
func TestUnreadable(t *testing.T) {
	instead := map[string]func(string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "with", "something"), 0o700) },
		"a link":   func(path string) error { return os.Symlink("nowhere", path) },
	}
	root := filepath.Join("jetstream", "$G", "streams", stream)
	lost := map[string]bool{"msgs": true, "msgs/1.blk": true, "": true}
	for _, file := range []string{
		"", "meta.inf", "meta.sum", "msgs", "msgs/1.blk", "msgs/index.db", "obs", "obs/worker", "obs/worker/meta.inf", "obs/worker/o.dat",
	} {
		for what, put := range instead {
			t.Run(file+" is "+what, func(t *testing.T) {
				if what == "a folder" && (file == "" || file == "msgs" || file == "obs" || file == "obs/worker") {
					return // as it should be
				}
				dir := store(t, 6, 10)
				js, stop := serve(t, dir)
				if _, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "worker"}); err != nil {
					t.Fatal(err)
				}
				stop()
				m := remembered(t, dir, 6, true)
				path := filepath.Join(dir, root, filepath.FromSlash(file))
				if err := errors.Join(os.RemoveAll(path), put(path)); err != nil {
					t.Fatal(err)
				}
				if r := examine(t, dir, Options{Memory: m}); len(r.Findings) == 0 {
					t.Errorf("the check finds nothing")
				}
				r := examine(t, dir, Options{Memory: m, Aside: filepath.Join(dir, "damaged")})
				found := false
				for _, f := range r.Findings {
					found = found || f.Level == Lost
				}
				if found != lost[file] || len(r.Findings) == 0 {
					t.Errorf("the check finds %+v, want something, and that messages are lost: %t", r.Findings, lost[file])
				}
				r = examine(t, dir, Options{Memory: r.Memory, Aside: filepath.Join(dir, "again")})
				for _, f := range r.Findings {
					if f.Level == Lost {
						t.Errorf("a second check finds %+v", f)
					}
				}
				js, stop = serve(t, dir)
				defer stop()
				s, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"test.>"}, Storage: jetstream.FileStorage})
				if err != nil {
					t.Fatal(err)
				}
				if got := s.CachedInfo().State; !lost[file] && (got.Msgs != 4 || got.LastSeq != 6) {
					t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
				}
			})
		}
	}
}

// TestMemoryUnreadable reads a memory that is a pipe.
func TestMemoryUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "remembered.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := ReadMemory(path); m != nil || !errors.Is(err, ErrForgotten) {
		t.Errorf("ReadMemory of a pipe = %+v, %v, want ErrForgotten", m, err)
	}
}

// failing has unreadable places, like a file on a failing disk.
type failing struct {
	*strings.Reader
	bad []int64
}

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	for _, bad := range f.bad {
		if at <= bad && bad < at+int64(len(b)) {
			n, _ := f.Reader.ReadAt(b[:bad-at], at)
			return n, syscall.EIO
		}
	}
	return f.Reader.ReadAt(b, at)
}

// TestReadPages keeps what can be read of a file on a failing disk.
func TestReadPages(t *testing.T) {
	whole := strings.Repeat("w", 5*page/2)
	for _, tt := range []struct {
		bad  []int64
		size int
		want int // readable bytes
		err  error
	}{
		{nil, len(whole), len(whole), nil},
		{nil, len(whole) + 5, len(whole), nil},
		{[]int64{page + 10}, len(whole), len(whole) - page + 10, syscall.EIO},
		{[]int64{0, int64(len(whole)) - 1}, len(whole), len(whole) - page - 1, syscall.EIO},
	} {
		b, err := readPages(&failing{strings.NewReader(whole), tt.bad}, tt.size)
		if n := bytes.Count(b, []byte("w")); n != tt.want || len(b) != len(whole) || !errors.Is(err, tt.err) {
			t.Errorf("readPages with %v = %d of %d bytes, %v, want %d, %v", tt.bad, n, len(b), err, tt.want, tt.err)
		}
	}
	var bad []int64
	for i := range int64(100) {
		bad = append(bad, i*page)
	}
	endless := &failing{strings.NewReader(strings.Repeat("w", 100*page)), bad}
	if b, err := readPages(endless, 100*page); len(b) >= 100*page || !errors.Is(err, syscall.EIO) {
		t.Errorf("readPages of a disk that fails everywhere = %d bytes, %v, want that it gives up", len(b), err)
	}
}
