package agentcard

import "testing"

// TestCache checks that the cache keeps the latest entries, within its bound.
func TestCache(t *testing.T) {
	c := newCache(3 * (entryCost + 100))
	key := func(b byte) contentHash { return contentHash{b} }
	for b := range byte(3) {
		c.put(key(b), result{}, 100)
	}
	c.get(key(0))
	c.put(key(3), result{}, 50)
	c.put(key(3), result{}, 50) // two concurrent ones count once
	for b, want := range []bool{true, false, true, true} {
		if _, ok := c.get(key(byte(b))); ok != want {
			t.Errorf("entry %d is there: %v, want %v", b, ok, want)
		}
	}
	if c.recent.Len() != 3 || c.room-c.recent.Size() != 50 {
		t.Errorf("%d entries, room for %d bytes, want 3, 50", c.recent.Len(), c.room-c.recent.Size())
	}
	c.put(key(9), result{}, 1<<20)
	if _, ok := c.get(key(9)); !ok || c.recent.Len() != 1 {
		t.Errorf("%d entries after one over the bound, want only it", c.recent.Len())
	}
	c.put(key(8), result{}, 1)
	if c.recent.Len() != 1 {
		t.Errorf("%d entries, want only the small one", c.recent.Len())
	}
}
