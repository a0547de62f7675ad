package rockbot

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// heavyCard returns a card as it comes, with texts of n bytes.
func heavyCard(t *testing.T, name string, n int) *card {
	t.Helper()
	long := strings.Repeat("x", n)
	skills := []any{nil, map[string]any{"name": "without an id"}}
	for range 2 {
		skills = append(skills, map[string]any{"id": "dig", "name": long, "description": long, "tags": []string{long}, "examples": []string{long}})
	}
	body, err := json.Marshal(map[string]any{"agentName": name, "description": long, "version": long, "url": "http://" + long, "skills": skills})
	if err != nil {
		t.Fatal(err)
	}
	c, err := readCard(body)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHeavyCards has agents announce themselves until their cards take too much memory together. What is kept and noted of a card is what is read of it. One
// that is there may have a smaller card, and what is left has room again.
func TestHeavyCards(t *testing.T) {
	w := newWorld(t)
	b, err := newBridge(w.site(), &w.o, w.times)
	if err != nil {
		t.Fatal(err)
	}
	gs := b.guests
	put := func(name string, n int) error { return gs.put(heavyCard(t, name, n), false, time.Now()) }
	if err := put("first", 300<<10); err != nil {
		t.Fatal(err)
	}
	first := gs.named("first")
	kept, err := json.Marshal(first.theirs)
	if err != nil || len(kept)+len(first.theirs.url) > 4*maxAbout {
		t.Errorf("of the card are kept %d bytes, and %d of its URL, %v", len(kept), len(first.theirs.url), err)
	}
	if len(first.card.Skills) != 1 || len(first.theirs.Skills) != 1 {
		t.Errorf("there are %d skills of %d", len(first.card.Skills), len(first.theirs.Skills))
	}
	gs.held = first.weight
	if err := put("second", 300<<10); err == nil || !strings.Contains(err.Error(), "too much memory") || gs.named("second") != nil {
		t.Errorf("second = %v", err)
	}
	for _, n := range []int{300 << 10, 10} { // the same again, and less
		if err := put("first", n); err != nil {
			t.Errorf("first with %d bytes: %v", n, err)
		}
	}
	gs.held = 3 * first.weight
	if err := put("second", 10); err != nil {
		t.Errorf("second = %v", err)
	}
	if err := put("first", 300<<10); err == nil {
		t.Error("first has more than there is room for")
	}
	many := &card{AgentName: "many"}
	for i := range 2 * transport.MaxSkills {
		many.Skills = append(many.Skills, &skill{ID: fmt.Sprint("s", i)})
	}
	if err := gs.put(many, false, time.Now()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many skills: %v", err)
	}
	if err := gs.put(&card{AgentName: "long", Skills: []*skill{{ID: strings.Repeat("x", maxWord+9)}}}, false, time.Now()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a long id: %v", err)
	}
}

// TestManyReasons sends cards that are none, in ever other names: what is remembered of them is little, and an agent that is left out is told a while later.
func TestManyReasons(t *testing.T) {
	w := newWorld(t)
	b, err := newBridge(w.site(), &w.o, w.times)
	if err != nil {
		t.Fatal(err)
	}
	gs := b.guests
	for i := range maxGuests + 9 {
		gs.hear(&amqp.Delivery{Body: []byte("none"), Headers: amqp.Table{"rb-source": fmt.Sprint(i) + strings.Repeat("x", 100_000)}})
	}
	kept := 0
	for key := range gs.told {
		kept += len(key)
	}
	if kept > maxGuests*1000 {
		t.Errorf("%d bytes are remembered of cards that are none", kept)
	}
	gs.since = gs.since.Add(-tellAgain)
	gs.hear(&amqp.Delivery{Body: []byte(`{"agentName":"user"}`)})
	if !contains(w.Log.String(), "kept for people") {
		t.Error("it is not told that an agent is left out")
	}
}

// TestLargeMessages has messages come that are too large to be read while nobody reads them: little of each is kept, and they are refused in their order.
func TestLargeMessages(t *testing.T) {
	in := make(chan amqp.Delivery, 2)
	freed := make(chan struct{})
	func() {
		large := amqp.Delivery{MessageId: "large", Body: make([]byte, 4*maxBody)}
		runtime.AddCleanup(&large.Body[0], func(struct{}) { close(freed) }, struct{}{})
		in <- large
		in <- amqp.Delivery{MessageId: "small", Body: []byte("{}")}
		close(in)
	}()
	out := small(in, 2)
	for end := time.After(time.Minute); ; {
		runtime.GC()
		select {
		case <-freed:
		case <-end:
			t.Fatal("the large message is kept")
		case <-time.After(10 * time.Millisecond):
			continue
		}
		break
	}
	large := <-out
	if err := read(large.Body, &request{}); large.MessageId != "large" || err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%s is read as %v", large.MessageId, err)
	}
	if is := <-out; is.MessageId != "small" || string(is.Body) != "{}" {
		t.Errorf("%s has %q", is.MessageId, is.Body)
	}
	if _, ok := <-out; ok {
		t.Error("there is more")
	}
}
