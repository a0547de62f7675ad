package nats

import (
	"strings"
	"testing"
)

// TestOpened holds that a server does not start which has not opened a stream that is in its store: Cortex would make it anew.
func TestOpened(t *testing.T) {
	ended, _ := prepareDamage(t, 1)
	n := &node{opts: ServerOptions{Dir: ended}}
	n.start(t)
	defer n.stop()
	names := n.srv.memory.keeps.Names()
	if err := opened(n.srv.current(), append(names, "ABSENT/"+inboxStream)); err != nil || len(names) < 3 { // an account that it has no keys of
		t.Errorf("opened(%v) = %v", names, err)
	}
	if err := opened(n.srv.current(), append(names, "$G/CORTEX_MORE")); err == nil || !strings.Contains(err.Error(), "CORTEX_MORE") {
		t.Errorf("opened = %v, want that CORTEX_MORE is not", err)
	}
}
