package storecheck

import (
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

// lostWith reports whether a check has found a loss described with these words.
func lostWith(r *Report, what string) bool {
	for _, f := range r.Findings {
		if f.Level == Lost && strings.Contains(f.What, what) {
			return true
		}
	}
	return false
}
