package nats

import (
	"errors"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestReplayIsInterrupted kills whoever replays a dead letter behind the first step of it, and does it once more: the event comes once.
func TestReplayIsInterrupted(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	inbox := transport.Inbox("", "worker")
	reason := transport.Permanent(errors.New("not yet"))
	handled := make(chan string)
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error {
		handled <- text(e)
		if text(e) == "again" {
			return reason
		}
		return nil
	})
	publish(t, b, inbox, "c1", "again")
	receive(t, handled)
	eventually(t, "it is a dead letter", func() bool { return len(dead(t, b)) == 1 })
	id := dead(t, b)[0].ID
	raw, err := b.findDead(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	first, err := replayed("", raw)
	if err == nil {
		err = b.store(t.Context(), first)
	}
	if err != nil {
		t.Fatal(err)
	}
	receive(t, handled)
	eventually(t, "it is given up again", func() bool { return len(dead(t, b)) == 2 })

	if err := n.dial(t, nil).ReplayDead(t.Context(), "", id); err != nil {
		t.Fatal(err)
	}
	publish(t, b, inbox, "c1", "the next")
	if got := receive(t, handled); got != "the next" {
		t.Errorf("%q came for a second time", got)
	}
	if left := dead(t, b); len(left) != 1 || left[0].ID == id {
		t.Errorf("%d dead letters, want only the one that was given up again", len(left))
	}
}
