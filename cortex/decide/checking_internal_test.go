package decide

import "testing"

// TestUncheckedResultsCount has results of one person wait to be checked: they are too much at last, and those of others are not.
func TestUncheckedResultsCount(t *testing.T) {
	f := newChecking()
	wait := func(who string, bytes int) {
		t.Helper()
		if err := f.add(&flight{bytes: bytes, begun: make(chan struct{})}, who, false); err != nil {
			t.Fatal(err)
		}
	}
	wait("ada", 1)
	n := 0
	for most := maxUndecidedBytes >> 20; !f.isFull("mallory") && n < most; n++ {
		wait("mallory", 1<<20)
	}
	if want := maxUndecidedBytes >> 20 * oneShare / (oneShare + 1); n != want {
		t.Errorf("%d MiB of results wait before it is too much, want %d", n, want)
	}
	if f.isFull("ada") || f.isFull("bob") {
		t.Error("others have too much as well")
	}
}
