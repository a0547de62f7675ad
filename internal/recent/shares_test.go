package recent_test

import (
	"slices"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// TestShares checks that whoever has most makes room, the oldest first, and that others keep what they have.
func TestShares(t *testing.T) {
	var s recent.Shares[string, int, string]
	if _, ok := s.Get("ada", 1); ok || s.Len() != 0 || len(s.Owners(1)) != 0 {
		t.Error("empty shares have something")
	}
	const most = 8
	s.Put("ada", 1, "a", most)
	s.Put("ada", 1, "b", most)
	if v, ok := s.Get("ada", 1); v != "b" || !ok || s.Len() != 1 {
		t.Errorf("Get = %q, %t of %d values, want the last of 1", v, ok, s.Len())
	}
	for i := range 10 * most {
		s.Put("mallory", i, "m", most)
	}
	if v, _ := s.Get("ada", 1); v != "b" || s.Len() != most {
		t.Errorf("%d values, ada's is %q, want %d and b", s.Len(), v, most)
	}
	if _, ok := s.Get("mallory", 10*most-most); ok {
		t.Error("mallory has the oldest of theirs")
	}
	if _, ok := s.Get("mallory", 10*most-1); !ok {
		t.Error("mallory has lost the newest of theirs")
	}
	s.Put("ada", 10*most-1, "c", most)
	owners := s.Owners(10*most - 1)
	if slices.Sort(owners); !slices.Equal(owners, []string{"ada", "mallory"}) {
		t.Errorf("Owners = %v", owners)
	}
	if v, ok := s.Take("ada", 1); v != "b" || !ok || s.Len() != most-1 || !slices.Equal(s.Values("ada"), []string{"c"}) {
		t.Errorf("Take = %q, %t, and %d values, ada's are %q", v, ok, s.Len(), s.Values("ada"))
	}
	if _, ok := s.Take("ada", 1); ok || len(s.Values("nobody")) != 0 {
		t.Error("what is not there is taken")
	}
	s.Put("bo", 1, "d", 1) // only one is left, whose it may be
	if s.Len() != 1 || len(s.Owners(1)) > 2 {
		t.Errorf("%d values, want 1", s.Len())
	}
}
