package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestCardsOfAHostAreBounded announces the cards of a bridge's agents above its share: what it has left free is for others, and is its own again when some
// of its agents have left.
func TestCardsOfAHostAreBounded(t *testing.T) {
	r := registry.New(registry.Config{})
	text := strings.Repeat("x", 1<<20)
	say := func(id, host string, gone transport.GoneReason) bool {
		c := &transport.Card{AgentID: id, Instance: "1", Host: host, Gone: gone}
		if gone == "" {
			c.Card = &a2a.AgentCard{Name: id, Description: text}
		}
		r.Apply(&transport.Event{ID: "c", From: id, Payload: c})
		_, ok := r.Snapshot().Get(id)
		return ok
	}
	n := 0
	for say(fmt.Sprint("a", n), "bridge", "") {
		n++
	}
	if n < 93 || n > 96 {
		t.Errorf("a bridge has %d agents with cards of 1 MB, want some three quarters of 128", n)
	}
	if got := r.Trouble(); len(got) != 1 || !strings.Contains(got[0], "a bridge's three times what is free") {
		t.Errorf("Trouble = %q", got)
	}
	for i := range 10 {
		if !say(fmt.Sprint("b", i), "other", "") || !say(fmt.Sprint("alone", i), "", "") {
			t.Errorf("there is no room for agents of others, after %d", i)
		}
	}
	if !say("a0", "bridge", "") { // with the card that it has
		t.Error("an agent is lost")
	}
	for i := range n {
		say(fmt.Sprint("a", i), "", transport.GoneLeft)
	}
	if !say("a", "bridge", "") {
		t.Error("there is no room when the bridge's agents have left")
	}
}

// TestCardsOfOneAreBounded: an agent whose instances have different cards takes the room of no other.
func TestCardsOfOneAreBounded(t *testing.T) {
	r := registry.New(registry.Config{})
	say := func(id string, instance int) {
		c := &a2a.AgentCard{Name: id, Description: fmt.Sprint(instance, strings.Repeat("x", 1<<20))}
		r.Apply(&transport.Event{ID: "c", From: id, Payload: &transport.Card{AgentID: id, Instance: fmt.Sprint(instance), Card: c}})
	}
	for i := range 100 {
		say("a", i)
		say("b", i)
	}
	if got := r.Trouble(); len(got) != 1 || !strings.Contains(got[0], "4 MB those of one agent") {
		t.Errorf("Trouble = %q", got)
	}
	say("c", 0)
	for id, want := range map[string]int{"a": 3, "b": 3, "c": 1} {
		if a, _ := r.Snapshot().Get(id); a == nil {
			t.Errorf("%s is not known", id)
		} else if n := len(a.Instances); n != want {
			t.Errorf("%s has %d instances, want %d", id, n, want)
		}
	}
	say("a", 0)
	if a, _ := r.Snapshot().Get("a"); len(a.Instances) != 3 {
		t.Errorf("announced again, it has %d instances", len(a.Instances))
	}
}

// TestMemoryOfCardsIsBounded: what counts is the memory of a card, and lists and objects in extensions take little.
func TestMemoryOfCardsIsBounded(t *testing.T) {
	card := func(id string, many any) *transport.Event {
		c := &a2a.AgentCard{Name: id}
		switch many := many.(type) {
		case []a2a.AgentExtension:
			c.Capabilities.Extensions = many
		default:
			c.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:many", Params: map[string]any{"many": many}}}
		}
		return &transport.Event{ID: "c", From: id, Payload: &transport.Card{AgentID: id, Instance: "1", Card: c}}
	}
	extensions, lists := make([]a2a.AgentExtension, 300_000), make([]any, 300_000)
	for i := range lists {
		lists[i] = []any{}
	}
	known := func(what any) int {
		r := registry.New(registry.Config{})
		for i := range 20 {
			r.Apply(card(fmt.Sprint("agent", i), what))
		}
		if n := len(r.Snapshot().Agents()); n == 20 == (len(r.Trouble()) > 0) {
			t.Errorf("%d agents of 20 are known, and the trouble is %q", n, r.Trouble())
		}
		return len(r.Snapshot().Agents())
	}
	if n := known(extensions); n == 0 || n > 10 { // 900 kB as JSON, and 14 MB
		t.Errorf("%d agents of 20 with many extensions are known", n)
	}
	if n := known(lists); n != 20 { // 12 MB, unless they are packed
		t.Errorf("%d agents of 20 with a long list are known", n)
	}
}

// TestMemoryOfKeptCardsIsBounded: cards that are remembered count.
func TestMemoryOfKeptCardsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		for i := range 250 { // of 720 kB
			s.notes[fmt.Sprint("agent", i)] = `{"card":{"name":"a","capabilities":{"extensions":[` + strings.Repeat("{},", 15_000) + `{}]}},"instances":[{"id":"1","ttl":3600000000000}]}`
		}
		l := live(t, registry.Config{Keep: s})
		n := len(l.Snapshot().Agents())
		if n == 0 || n == 250 || !strings.Contains(l.log.String(), "there are too many agents") {
			t.Errorf("%d agents of 250 are remembered", n)
		}
		l.publish("one-more/1", transport.Card{Card: &a2a.AgentCard{Name: "one-more", Description: strings.Repeat("x", 1<<20)}})
		if got := len(l.Snapshot().Agents()); got != n {
			t.Errorf("%d agents are known, want the %d that are remembered", got, n)
		}
		l.stop()
		if got := len(s.notes); got != 250 {
			t.Errorf("%d notes are left of 250: those of agents for whom there is no room stay", got)
		}
	})
}

// TestFormerCardStays: an agent with another card for which there is no room keeps the one that it has had, and a card that is no larger has room.
func TestFormerCardStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(registry.Config{})
		say := func(id, text string) string {
			heartbeat := time.Duration(0)
			if id == "changes" {
				heartbeat = 10 * time.Second
			}
			r.Apply(&transport.Event{ID: "c", From: id, Payload: &transport.Card{
				AgentID: id, Instance: "1", Heartbeat: heartbeat, Card: &a2a.AgentCard{Name: id, Description: text},
			}})
			a, ok := r.Snapshot().Get(id)
			if !ok {
				return "nothing"
			}
			return a.Card.Description[:1]
		}
		long := strings.Repeat("x", 1<<20)
		say("changes", "1"+long[:1000])
		for i := range 127 {
			say(fmt.Sprint("agent", i), long)
		}
		if got := say("late", "1"+long); got != "nothing" {
			t.Errorf("there is room for more: %s", got)
		}
		for range 10 { // it lives on
			time.Sleep(10 * time.Second)
			r.Sweep(time.Now())
			if got := say("changes", "2"+long+long); got != "1" {
				t.Fatalf("with a card for which there is no room, the agent has %s, want the former one", got)
			}
		}
		if lines := r.Trouble(); len(lines) != 1 || !strings.Contains(lines[0], `"changes"`) {
			t.Errorf("Trouble = %q, want the agent whose card is ignored", lines)
		}
		if got := say("changes", "3"+long[:1000]); got != "3" {
			t.Errorf("with a card that is no larger, it has %s", got)
		}
		if got := say("agent0", "4"+long[1:]); got != "4" {
			t.Errorf("with another card of the same size, a large one has %s", got)
		}
	})
}

// asking is a part of a card that reads the registry when it is encoded.
type asking struct{ r *registry.Registry }

func (a asking) MarshalJSON() ([]byte, error) {
	a.r.Trouble()
	return []byte(`"x"`), nil
}

// TestCardsArePackedBeside: readers of the registry do not wait for a card that takes long to encode.
func TestCardsArePackedBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(registry.Config{})
		r.Apply(&transport.Event{ID: "c", From: "a", Payload: &transport.Card{AgentID: "a", Instance: "1", Card: &a2a.AgentCard{
			Name: "a", Capabilities: a2a.AgentCapabilities{Extensions: []a2a.AgentExtension{{URI: "urn:x", Params: map[string]any{"x": []any{asking{r}}}}}},
		}}})
		if _, ok := r.Snapshot().Get("a"); !ok {
			t.Error("the agent is not known")
		}
	})
}
