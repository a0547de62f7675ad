package decide

import (
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

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

// TestHeldConversationsCount has short requests of one person wait in large conversations: they are refused at last, and those of others are not.
func TestHeldConversationsCount(t *testing.T) {
	f := newPlaces()
	f.refuses = true
	ask := func(who string) error {
		_, err := f.ask(who, &transport.Event{Payload: &transport.Share{}}, 4<<20, time.Now())
		return err
	}
	n := 0
	for most := maxUndecided; n < most && ask("mallory") == nil; n++ {
	}
	if most := maxUndecidedBytes * heldShare >> 22; n > most*oneShare/(oneShare+1)+1 {
		t.Errorf("%d conversations of 4 MiB are held, of at most %d", n, most)
	}
	if err := ask("bob"); err != nil {
		t.Errorf("another one: %v", err)
	}
}
