package jetstore_test

import (
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

// TestClock checks that the store tells the server's time, and when the server has stored something.
func TestClock(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if now, last, err := s.Clock(t.Context()); err != nil || time.Since(now).Abs() > time.Minute || !last.IsZero() {
		t.Errorf("of an empty store Clock = %v, %v, %v", now, last, err)
	}
	if at, err := s.Stored(t.Context(), "", "c"); err != nil || !at.IsZero() {
		t.Errorf("of no conversation Stored = %v, %v", at, err)
	}
	before := time.Now()
	fill(t, s, 3)
	at, err := s.Stored(t.Context(), "", "c")
	if err != nil || at.Before(before) || time.Since(at) < 0 {
		t.Errorf("Stored = %v, %v, want a time since %v", at, err, before)
	}
	if _, last, err := s.Clock(t.Context()); err != nil || !last.Equal(at) {
		t.Errorf("Clock says that %v was last, %v, want %v", last, err, at)
	}
}
