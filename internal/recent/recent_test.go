package recent_test

import (
	"slices"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// TestCache checks Put, Get and Take, the order by last use, and the total size.
func TestCache(t *testing.T) {
	var c recent.Cache[string, int]
	if v, ok := c.Get("a"); ok || v != 0 {
		t.Errorf("an empty cache has %d", v)
	}
	c.Put("a", 1, 10)
	c.Put("b", 2, 20)
	c.Put("c", 3, 30)
	c.Put("b", 4, 25) // replaces the other
	c.Get("a")
	if all := c.Values(); !slices.Equal(all, []int{1, 4, 3}) {
		t.Errorf("Values = %v", all)
	}
	if v, ok := c.Take("c"); !ok || v != 3 {
		t.Errorf("Take = %d, %t, want 3", v, ok)
	}
	if _, ok := c.Take("c"); ok {
		t.Error("what was taken is there")
	}
	if c.Len() != 2 || c.Size() != 35 || c.Oldest() != 4 {
		t.Errorf("%d values of size %d, %d the oldest, want 2, 35, 4", c.Len(), c.Size(), c.Oldest())
	}
	c.Drop()
	if v, _ := c.Get("a"); c.Len() != 1 || c.Size() != 10 || v != 1 {
		t.Errorf("%d values of size %d, and %d, want 1, 10, 1", c.Len(), c.Size(), v)
	}
}
