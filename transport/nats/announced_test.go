package nats

import (
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestAnnounced checks Announced with the orchestrator's credentials and a person's.
func TestAnnounced(t *testing.T) {
	dir := keys(t)
	w := &town{node: newNode(t, ServerOptions{Auth: dir}), dir: dir}
	w.cortex = w.dial(t, nil)
	serveTopic(t, w.cortex, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
	put := func(id, instance string, c transport.Card) {
		t.Helper()
		c.AgentID, c.Instance = id, instance
		if c.Gone == "" {
			c.Card = &a2a.AgentCard{Name: id}
		}
		if err := w.cortex.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: id, Time: time.Now(), Payload: &c}); err != nil {
			t.Fatal(err)
		}
	}
	put(transport.Cortex, "1", transport.Card{TTL: time.Minute})
	put(transport.Cortex, "1", transport.Card{Gone: transport.GoneLeft})
	put("echo", "1", transport.Card{TTL: time.Minute})
	for who, b := range map[string]*Bus{"orchestrator": w.cortex, "person": w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})} {
		for agent, want := range map[string]bool{transport.Cortex: false, "echo": true, "ech": false} {
			if got, err := b.Announced(t.Context(), "", agent); got != want || err != nil {
				t.Errorf("%s: Announced(%s) = %v, %v, want %v", who, agent, got, err, want)
			}
		}
	}
	put(transport.Cortex, "2", transport.Card{TTL: time.Minute})
	if got, err := w.cortex.Announced(t.Context(), "", transport.Cortex); !got || err != nil {
		t.Errorf("Announced = %v, %v, want true", got, err)
	}
}
