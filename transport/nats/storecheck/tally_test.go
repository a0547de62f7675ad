package storecheck

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// cutEnd removes the last, intact records from a block, so that n remain.
func cutEnd(t *testing.T, dir, path string, n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newBlock(stream, 1)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	r.read(b, func(r *Record) error {
		if n--; n >= 0 {
			size += len(r.bytes)
		}
		return nil
	})
	if err := os.WriteFile(path, b[:size], 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReplaced has a store after a proper shutdown, with an older block in place of the server's: its size is the remembered one, and the server's
// index covers everything that it had.
func TestReplaced(t *testing.T) {
	t.Run("limits", func(t *testing.T) {
		dir := store(t, 9, 10)
		if r := examine(t, dir, Options{Memory: remembered(t, dir, 9, true)}); len(r.Findings) > 0 {
			t.Fatalf("the check finds %+v before anything is replaced", r.Findings)
		}
		cutEnd(t, dir, blockFile(dir, 1), 6)
		r := examine(t, dir, Options{Memory: remembered(t, dir, 9, true), Aside: t.TempDir()})
		if !lostWith(r, "messages 7 to 9 are gone") {
			t.Errorf("the check finds %+v, want that messages 7 to 9 are gone", r.Findings)
		}
		if got := state(t, dir); got.LastSeq < 9 {
			t.Errorf("the stream goes on behind %d, want 9 or later", got.LastSeq)
		}
	})
	t.Run("work queue", func(t *testing.T) {
		dir := queue(t)
		_, stop := serve(t, dir) // writes its index at its end
		stop()
		if r := examine(t, dir, Options{Memory: remembered(t, dir, 24, true)}); len(r.Findings) > 0 {
			t.Fatalf("the check finds %+v before anything is replaced", r.Findings)
		}
		cutEnd(t, dir, blockFile(dir, 1), 15)
		r := examine(t, dir, Options{Memory: remembered(t, dir, 24, true), Aside: t.TempDir()})
		if !lostWith(r, "of 19 messages are gone") {
			t.Errorf("the check finds %+v, want that some of 19 messages are gone", r.Findings)
		}
	})
	t.Run("while it ran", func(t *testing.T) { // a block in the middle, and the process was killed
		dir := store(t, 30, 800<<10)
		m := remembered(t, dir, 30, false)
		m.Streams["$G/"+stream].Had = &Had{Messages: 28, First: 1}
		m.Found = []Finding{{Account: "$G", Stream: stream, Level: Lost, Running: true}}
		if r := examine(t, dir, Options{Memory: m}); lostWith(r, "") {
			t.Fatalf("the check finds %+v before anything is replaced", r.Findings)
		}
		if err := os.Remove(blockFile(dir, 2)); err != nil {
			t.Fatal(err)
		}
		if r := examine(t, dir, Options{Memory: m}); !lostWith(r, "of 28 messages are gone") {
			t.Errorf("the check finds %+v, want that some of 28 messages are gone", r.Findings)
		}
	})
}

// TestDamaged counts messages that are damaged in a block with others. What is cut off, and a block that may be another stream's, are no such damage.
func TestDamaged(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(path string, ends []int) error // ends are those of the records
		lacking, want uint64
	}{
		"one":                 {func(path string, ends []int) error { return zero(path, ends[3]-8, ends[3]) }, 1, 1},
		"the last":            {func(path string, ends []int) error { return zero(path, ends[8]-8, ends[8]) }, 1, 1},
		"three beside others": {func(path string, ends []int) error { return zero(path, ends[3]-20, ends[4]+30) }, 3, 3},
		"cut off":             {func(path string, ends []int) error { return os.Truncate(path, int64(ends[6]-1)) }, 3, 0},
		"a block of others": {func(path string, ends []int) error {
			return os.Rename(path, strings.Replace(path, "1.blk", "2.blk", 1))
		}, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := store(t, 9, 10)
			path := blockFile(dir, 1)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newBlock(stream, 1)
			if err != nil {
				t.Fatal(err)
			}
			var ends []int
			r.read(b, func(r *Record) error {
				ends = append(ends, r.at+len(r.bytes))
				return nil
			})
			if err := test.change(path, ends); err != nil {
				t.Fatal(err)
			}
			c, err := Counted(dir, "$G/"+stream, func() {})
			if err != nil {
				t.Fatal(err)
			}
			if lacking := c.Lacking(7, 1, 9, false); lacking != test.lacking || c.Damaged() != test.want {
				t.Errorf("Lacking = %d, Damaged = %d, want %d and %d", lacking, c.Damaged(), test.lacking, test.want)
			}
		})
	}
}

// zero overwrites a part of a file.
func zero(path string, from, to int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, to-from), int64(from))
	return errors.Join(err, f.Close())
}

// lostWith reports whether a check has found a loss described with these words.
func lostWith(r *Report, what string) bool {
	for _, f := range r.Findings {
		if f.Level == Lost && strings.Contains(f.What, what) {
			return true
		}
	}
	return false
}
