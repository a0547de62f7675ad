package nats

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestCardsThatDoNotEnd has an agent announce itself more often than its cards are heard: who begins to listen, with a consumer or without one,
// is told all the same when it has heard of all that was there, and that another agent's time is over.
func TestCardsThatDoNotEnd(t *testing.T) {
	dir := keys(t)
	w := &town{node: newNode(t, ServerOptions{Auth: dir}), dir: dir}
	w.cortex = w.dial(t, nil)
	serveTopic(t, w.cortex, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
	announce := func(t *testing.T, id, instance string, ttl time.Duration) {
		e := &transport.Event{ID: "c", From: id, Payload: &transport.Card{AgentID: id, Instance: instance, TTL: ttl, Card: &a2a.AgentCard{Name: id}}}
		m, err := encode(cardSubject("", id, instance), e, false)
		if err == nil {
			err = w.cortex.store(t.Context(), m) // without the header that has the server take it away
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
					for range 3 { // there are more before this one is done with
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
