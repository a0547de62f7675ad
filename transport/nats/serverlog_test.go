package nats

import (
	"strings"
	"testing"
)

// TestBroken has the server say that it has given a store up, and other things.
func TestBroken(t *testing.T) {
	l := newServerLog(nil)
	s := &Server{log: l}
	l.Errorf("JetStream failed to store a msg on stream '%s > %s': %v", "$G", "S", "maximum bytes")
	select {
	case err := <-s.Broken():
		t.Errorf("Broken = %v of what passes", err)
	default:
	}
	for range 3 { // each stream says it
		l.Errorf("JetStream stream '%s > %s' critical write error: %v", "$G", "S", "no space left on device")
	}
	if err := receive(t, s.Broken()); !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Broken = %v, want what the server said", err)
	}
}
