package storecheck

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHold deletes a stream while it is held, like a server that cannot open it, entirely or in part: PutBack restores it. A stream that still
// exists with fewer blocks stays as it is.
func TestHold(t *testing.T) {
	for name, remove := range map[string]string{"all": "", "messages": "msgs", "block": "msgs/1.blk"} {
		t.Run(name, func(t *testing.T) {
			dir := store(t, 6, 10)
			m := remembered(t, dir, 6, false)
			Hold(dir, examine(t, dir, Options{Memory: m, Aside: t.TempDir()}).Open)
			if err := os.RemoveAll(streamFile(dir, remove)); err != nil {
				t.Fatal(err)
			}
			back, err := PutBack(dir)
			if err != nil || len(back) != 1 || back[0] != "$G/"+stream {
				t.Errorf("PutBack = %v, %v, want the stream", back, err)
			}
			if r := examine(t, dir, Options{Memory: m}); len(r.Findings) > 0 {
				t.Errorf("the check finds %+v", r.Findings)
			}
			if _, err := os.Stat(filepath.Join(dir, heldDir)); !os.IsNotExist(err) {
				t.Errorf("something is held still: %v", err)
			}
			if got := state(t, dir); got.Msgs != 4 || got.LastSeq != 6 {
				t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
			}
		})
	}
	dir := store(t, 30, 800<<10) // in files of 8 MB
	Hold(dir, []string{"$G/" + stream})
	if err := os.Remove(blockFile(dir, 2)); err != nil {
		t.Fatal(err)
	}
	back, err := PutBack(dir)
	if _, serr := os.Stat(blockFile(dir, 2)); err != nil || len(back) > 0 || !os.IsNotExist(serr) {
		t.Errorf("PutBack of a stream that was opened = %v, %v, and the block that it has removed: %v", back, err, serr)
	}
	if back, err := PutBack(dir); err != nil || len(back) > 0 {
		t.Errorf("PutBack of nothing = %v, %v", back, err)
	}
}

// TestHoldEmpty has a stream whose only block is empty, which a server removes when it opens the stream: PutBack does not report that stream as
// restored.
func TestHoldEmpty(t *testing.T) {
	dir := store(t, 6, 10)
	if err := os.Truncate(blockFile(dir, 1), 0); err != nil {
		t.Fatal(err)
	}
	Hold(dir, []string{"$G/" + stream})
	if err := os.Remove(blockFile(dir, 1)); err != nil {
		t.Fatal(err)
	}
	if back, err := PutBack(dir); err != nil || len(back) > 0 {
		t.Errorf("PutBack = %v, %v, want nothing: an empty block holds nothing", back, err)
	}
}
