package nats

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestCardsThatDoNotEnd checks a new reader of cards, with and without a consumer, while an agent announces itself faster than cards are read: the
// reader still gets Synced and learns that another agent's card has expired.
func TestCardsThatDoNotEnd(t *testing.T) {
	dir := keys(t)
	w := &town{node: newNode(t, ServerOptions{Auth: dir}), dir: dir}
	w.cortex = w.dial(t, nil)
	serveTopic(t, w.cortex, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
	announce := func(t *testing.T, id, instance string, ttl time.Duration) {
		e := &transport.Event{ID: "c", From: id, Payload: &transport.Card{AgentID: id, Instance: instance, TTL: ttl, Card: &a2a.AgentCard{Name: id}}}
		m, err := encode(cardSubject("", id, instance), e, false)
		if err == nil {
			err = w.cortex.store(t.Context(), m) // without the header that makes the server remove it
		}
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}
	for who, b := range map[string]*Bus{"orchestrator": w.cortex, "person": w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})} {
		t.Run(who, func(t *testing.T) {
			for i := range 3 {
				announce(t, "flood", fmt.Sprint(i), 0)
			}
			announce(t, "lost-"+who, "1", time.Second)
			synced, gone := make(chan bool, 1), make(chan bool, 1)
			n := 0
			serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
				switch p := e.Payload.(type) {
				case *transport.Synced:
					synced <- true
				case *transport.Card:
					if p.AgentID == "lost-"+who && p.Gone == transport.GoneExpired {
						gone <- true
					}
					for range 3 { // further cards arrive before this one is handled
						n++
						announce(t, "flood", fmt.Sprint(n%3), 0)
					}
				}
				return nil
			})
			receive(t, synced)
			receive(t, gone)
		})
	}
}
