package nats

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// timerList returns the path of the server's list of timers of the inboxes.
func timerList(n *node) string {
	return filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs", "sched.db")
}

// TestEndedTimersAreNotNamed checks that no file contains the name of a deleted conversation after a shutdown, even if its timers were replaced and
// removed: the server keeps those in its list until their time.
func TestEndedTimersAreNotNamed(t *testing.T) {
	const name = "xyzzy-plugh"
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	inbox := transport.Inbox("", transport.Cortex)
	publish := func(id string, contextID string) {
		t.Helper()
		e := message(inbox, contextID, "words")
		e.ID, e.DeliverAt = id, time.Now().Add(time.Hour)
		if err := b.Publish(t.Context(), inbox, e); err != nil {
			t.Fatal(err)
		}
	}
	publish("one", name)
	publish("kept", "kept")
	if err := b.Erase(t.Context(), "", name); err != nil {
		t.Fatal(err)
	}
	n.stop()
	if found := filesWith(t, n.opts.Dir, name); len(found) > 0 {
		t.Errorf("after the server has stopped, the name is in %v", found)
	}
}

// TestTimerListIsMadeAnew checks that a list of timers that another version or a kill has left is erased before a server reads it, and that timers
// fire without it.
func TestTimerListIsMadeAnew(t *testing.T) {
	const name = "xyzzy-plugh"
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	inbox := transport.Inbox("", transport.Cortex)
	due := time.Now().Add(2 * time.Second)
	for _, id := range []string{"one", "two", "three"} {
		e := message(inbox, "c-"+id, "words")
		e.ID, e.DeliverAt = id, due
		if err := b.Publish(t.Context(), inbox, e); err != nil {
			t.Fatal(err)
		}
	}
	n.stop()
	list := timerList(n)
	if _, err := os.Lstat(list); !os.IsNotExist(err) {
		t.Errorf("Lstat(%s) = %v after a stop, want that it is not there", list, err)
	}
	if err := os.WriteFile(list, []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	if found := filesWith(t, n.opts.Dir, name); len(found) > 0 {
		t.Errorf("after the start, what was in the list of timers is in %v", found)
	}
	if found := n.srv.Found(); len(found) > 0 {
		t.Errorf("the start has found %+v, want nothing", found)
	}
	b = n.dial(t, nil)
	handled := make(chan *transport.Event)
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error {
		handled <- e
		return nil
	})
	came := map[string]bool{}
	for range 3 {
		e := receive(t, handled)
		came[e.ID] = true
		if now := time.Now(); now.Before(due) {
			t.Errorf("%s came %v before its time", e.ID, due.Sub(now))
		}
	}
	if len(came) != 3 {
		t.Errorf("the timers that came are %v, want all three", came)
	}
}
