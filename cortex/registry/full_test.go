package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestCardsAreBounded announces cards above the total limit: the excess is ignored, and reported. Instances share a card, and an agent that leaves
// makes room.
func TestCardsAreBounded(t *testing.T) {
	r := registry.New(registry.Config{})
	say := func(id, instance, text string, gone transport.GoneReason) {
		c := &transport.Card{AgentID: id, Instance: instance, Gone: gone}
		if gone == "" {
			c.Card = &a2a.AgentCard{Name: id, Description: text}
		}
		r.Apply(&transport.Event{ID: "c", From: id, Payload: c})
	}
	text := strings.Repeat("x", 1<<20) // larger than a transport permits, to shorten the test
	n := 0
	for ; n < 200 && len(r.Trouble()) == 0; n++ {
		say(fmt.Sprint("agent", n), "1", text, "")
		say(fmt.Sprint("agent", n), "2", text, "")
	}
	if got := r.Trouble(); len(got) != 1 || !strings.Contains(got[0], "cards were ignored") || !strings.Contains(got[0], "their cards may have 128 MB together") {
		t.Errorf("Trouble = %q", got)
	}
	known := len(r.Snapshot().Agents())
	if n != 128 || known != 127 {
		t.Errorf("%d agents of %d are known, want 127 of 128", known, n)
	}
	say("agent0", "3", text, "") // a known card
	if a, _ := r.Snapshot().Get("agent0"); a == nil || len(a.Instances) != 3 {
		t.Errorf("agent0 is %v, want three instances", a)
	}
	for _, instance := range []string{"1", "2", "3"} {
		say("agent0", instance, "", transport.GoneLeft)
	}
	say("late", "1", text, "")
	if _, ok := r.Snapshot().Get("late"); !ok {
		t.Error("there is no room when another agent has left")
	}
}
