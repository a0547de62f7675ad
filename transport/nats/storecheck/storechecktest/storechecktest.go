// Package storechecktest damages the files of a NATS server's store, for tests of packages that keep data in one.
package storechecktest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Copy copies a store, file by file, to a new folder and returns its path. The store may be written to meanwhile.
func Copy(t testing.TB, from string) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = copyTo(filepath.Join(dir, strings.TrimPrefix(path, from)), path, d)
		}
		if errors.Is(err, fs.ErrNotExist) && path != from { // removed meanwhile
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyTo copies a file or makes a folder.
func copyTo(to, path string, d fs.DirEntry) error {
	if d.IsDir() {
		return os.MkdirAll(to, 0o700)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Damage flips bits of a file of a store without accounts, truncates it, appends to it, empties it or removes it, or removes a whole stream. In one
// of three calls it chooses a file of the stream often. It returns a description of what it has done.
func Damage(t testing.TB, rnd *rand.Rand, dir, often string) string {
	t.Helper()
	streams := filepath.Join(dir, "jetstream", "$G", "streams")
	entries, err := os.ReadDir(streams)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(streams, entries[rnd.IntN(len(entries))].Name())
	if rnd.IntN(3) == 0 {
		root = filepath.Join(streams, often)
	}
	if rnd.IntN(16) == 0 {
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		return "removed " + filepath.Base(root)
	}
	path := pick(t, rnd, root)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	what := "did nothing to"
	switch n := rnd.IntN(8); {
	case n == 0:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("removed %s of %s", filepath.Base(path), filepath.Base(root))
	case n == 1:
		b, what = nil, "emptied"
	case n == 2 && len(b) > 0:
		b = b[:rnd.IntN(len(b))]
		what = fmt.Sprintf("cut to %d bytes", len(b))
	case n == 3:
		for range 1 + rnd.IntN(1000) {
			b = append(b, byte(rnd.Uint32()))
		}
		what = "added to"
	case len(b) > 0:
		flips := 1
		if n > 5 {
			flips = 50
		}
		for range flips {
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		what = fmt.Sprintf("flipped %d bits of", flips)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s of %s", what, filepath.Base(path), filepath.Base(root))
}

// pick returns a random file of a stream, more often one with messages.
func pick(t testing.TB, rnd *rand.Rand, root string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
			if strings.HasSuffix(path, ".blk") {
				all = append(all, path, path, path)
			}
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("no files in %s: %v", root, err)
	}
	return all[rnd.IntN(len(all))]
}
