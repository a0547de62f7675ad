package document

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// silent is a file whose reads block after some bytes, until it is closed.
type silent struct {
	some   io.Reader
	closed chan struct{}
}

func (s *silent) Read(b []byte) (int, error) {
	if n, err := s.some.Read(b); err == nil {
		return n, nil
	}
	<-s.closed
	return copy(b, "too late"), os.ErrClosed
}

func (s *silent) Seek(int64, int) (int64, error) { return 0, nil }

func (s *silent) Close() error {
	close(s.closed)
	return nil
}

// TestRegularThatWaits reads a file that blocks: the read ends with its context at once, or after Patience.
func TestRegularThatWaits(t *testing.T) {
	for name, test := range map[string]struct {
		cancel bool
		took   time.Duration
		want   string
	}{
		"canceled": {true, time.Second, "canceled by the user"},
		"for long": {false, Patience, "read f: nothing came of it for 10s: it is no plain file, or its disk does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				r := &Regular{f: &silent{bytes.NewReader([]byte("some")), make(chan struct{})}, path: "f", ctx: ctx}
				began := time.Now()
				if test.cancel {
					time.AfterFunc(time.Second, func() { cancel(errors.New("canceled by the user")) })
				}
				b, err := io.ReadAll(r)
				if string(b) != "some" || err == nil || err.Error() != test.want || time.Since(began) != test.took {
					t.Errorf("ReadAll = %q, %v after %v; want some, %q after %v", b, err, time.Since(began), test.want, test.took)
				}
				if err := r.Rewind(); err == nil || err.Error() != test.want {
					t.Errorf("Rewind = %v, want %q", err, test.want)
				}
				if err := r.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
}

// TestOpenRegular reads regular files, twice, in a folder and by path, and checks that others are refused.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, content := range map[string][]byte{"empty": {}, "small": []byte("small"), "large": bytes.Repeat([]byte("large"), regularPiece)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for i, open := range []func() (*Regular, error){
			func() (*Regular, error) { return OpenRegular(t.Context(), path) },
			func() (*Regular, error) { return OpenRegularIn(t.Context(), root, name) },
		} {
			r, err := open()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := iotest.TestReader(r, content); err != nil {
					t.Errorf("%s, opened by %d: %v", name, i, err)
				}
				if err := r.Rewind(); err != nil {
					t.Error(err)
				}
			}
			if r.Info().Size() != int64(len(content)) {
				t.Errorf("%s: Info says %d bytes, want %d", name, r.Info().Size(), len(content))
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := OpenRegular(t.Context(), dir); err == nil || err.Error() != dir+" is a folder, not a file" {
		t.Errorf("OpenRegular of a folder: %v", err)
	}
	if _, err := OpenRegular(t.Context(), filepath.Join(dir, "not")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRegular of what is not there: %v", err)
	}
}

// TestOpenWaitsForNoFile checks that all readers of a file have [Patience] with it, since one that claims to be a file may block.
func TestOpenWaitsForNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("some"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), path, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, ok := f.f.(*Regular)
	if !ok {
		t.Fatalf("Open reads by a %T, which may block for ever", f.f)
	}
	if b, err := io.ReadAll(f); string(b) != "some" || err != nil {
		t.Errorf("ReadAll = %q, %v", b, err)
	}
	if len(r.piece) > 1<<10 {
		t.Errorf("a file of 4 bytes is read into %d bytes", len(r.piece))
	}
}
