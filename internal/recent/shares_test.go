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
	s.Put("ada", 1, "a", 1, most)
	s.Put("ada", 1, "b", 1, most)
	if v, ok := s.Get("ada", 1); v != "b" || !ok || s.Len() != 1 {
		t.Errorf("Get = %q, %t of %d values, want the last of 1", v, ok, s.Len())
	}
	for i := range 10 * most {
		s.Put("mallory", i, "m", 1, most)
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
	s.Put("ada", 10*most-1, "c", 1, most)
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
	s.Put("bo", 1, "d", 1, 1) // only one is left, whose it may be
	if s.Len() != 1 || len(s.Owners(1)) > 2 {
		t.Errorf("%d values, want 1", s.Len())
	}
}

// TestSharesBySize checks that large values count as what they are: who has few of them makes room for those who have many small ones.
func TestSharesBySize(t *testing.T) {
	const most, owners = 1000, 20
	var s recent.Shares[int, int, int]
	for k := range 10 * owners {
		s.Put(k%owners, k, k, 1, most)
	}
	for k := range 10 {
		s.Put(owners, k, k, 300, most)
	}
	for of := range owners {
		if n, size := s.Has(of); n != 10 || size != 10 {
			t.Errorf("%d has %d values of size %d, want all 10", of, n, size)
		}
	}
	if n, size := s.Has(owners); n != 2 || size != 600 || !slices.Equal(s.Values(owners), []int{9, 8}) || s.Size() != 800 {
		t.Errorf("%d values of size %d, %d in all, want the last 2 of 300, and 800", n, size, s.Size())
	}
	s.Put(7, 1000, 0, 500, most) // the other loses one, and is not the first any more
	s.Put(owners+1, 1000, 0, 300, most)
	if n, size := s.Has(7); n != 0 || size != 0 || s.Size() != 790 {
		t.Errorf("%d values of size %d, %d in all, want none, and 790: the large one was the last", n, size, s.Size())
	}
	s.Forget(owners)
	s.Forget(owners)
	s.Drop(0)
	if n, size := s.Has(owners); n != 0 || size != 0 || s.Size() != 189+300 || s.Len() != 189+1 {
		t.Errorf("%d values of size %d, %d of %d in all, want none, and 190 of 489", n, size, s.Len(), s.Size())
	}
	for of := range owners + 2 {
		s.Forget(of)
	}
	if s.Len() != 0 || s.Size() != 0 {
		t.Errorf("%d values of size %d, want none", s.Len(), s.Size())
	}
}
