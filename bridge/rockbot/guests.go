package rockbot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxGuests bounds the number of RockBot's agents.
const maxGuests = 4096

// tellAgain is how long it is not logged again why a card is left out.
const tellAgain = time.Hour

// lookEach is the time between two looks at all agents.
const lookEach = 10 * time.Second

// guest is an agent of RockBot.
type guest struct {
	b      *bridge
	name   string // as RockBot has it
	id     string // as Cortex does
	pinned bool   // it gets work also while it is away

	mu      sync.Mutex
	theirs  *card
	card    *a2a.AgentCard
	weight  int       // of the card
	heard   time.Time // when its card came last
	left    bool      // it has said that it leaves
	refused string    // why it is left out

	served *a2a.AgentCard // what Cortex knows; only for guests.settle
	noted  []byte         // its note; likewise
}

// shown returns the agent's card in Cortex.
func (g *guest) shown() *a2a.AgentCard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.card
}

// away reports whether the agent has left, or was silent for so long that it has.
func (g *guest) away() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.pinned && (g.left || g.b.now().Sub(g.heard) > g.b.times.silent)
}

// isSecond reports whether the agent is of the second generation.
func (g *guest) isSecond() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.theirs.second
}

// guests are the agents of RockBot, by name in lower case: RockBot's directory knows no difference. They are safe for concurrent use.
type guests struct {
	b     *bridge
	held  int // what all cards may take
	notes storage.Notes
	more  chan struct{} // holds one when there is something to do

	mu    sync.Mutex
	by    map[string]*guest
	gone  map[string]bool // the ids in Cortex of those that others have replaced, until run has removed them
	told  map[string]bool // what was logged of cards that are left out
	since time.Time       // when that began
}

// wake has run look at all agents again.
func (gs *guests) wake() {
	select {
	case gs.more <- struct{}{}:
	default:
	}
}

// named returns the agent of that name, or nil.
func (gs *guests) named(name string) *guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return gs.by[strings.ToLower(name)]
}

// known returns the agent that has this id in Cortex, or nil.
func (gs *guests) known(id string) *guest {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, g := range gs.by {
		if g.id == id {
			return g
		}
	}
	return nil
}

// due returns the ids of agents that were replaced since the last call, and all that are there.
func (gs *guests) due() (gone []string, all []*guest) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gone = slices.Collect(maps.Keys(gs.gone))
	clear(gs.gone)
	return gone, slices.Collect(maps.Values(gs.by))
}

// hear takes a card from RockBot. It never refuses one: the queue is read by nobody else.
func (gs *guests) hear(d *amqp.Delivery) {
	c, err := readCard(d.Body)
	if err != nil {
		gs.tell("a card that cannot be read: "+err.Error(), header(d, "rb-source"))
		return
	}
	source := header(d, "rb-source")
	if gs.b.owns(source) || gs.b.owns(c.AgentName) {
		return
	}
	if !d.Timestamp.IsZero() && gs.b.now().Sub(d.Timestamp) > gs.b.times.stale {
		return // it was kept somewhere
	}
	if err := gs.put(c, false, gs.b.now()); err != nil {
		gs.tell(err.Error(), c.AgentName)
	}
}

// tell logs why a card is left out, once for each reason, and again after a while: what strangers send must not be all that is ever told.
func (gs *guests) tell(why, of string) {
	of, why = shorten.Line(of, maxName), shorten.Line(why, 500)
	key := why + "\n" + of
	gs.mu.Lock()
	if now := gs.b.now(); now.Sub(gs.since) >= tellAgain {
		clear(gs.told)
		gs.since = now
	}
	known := gs.told[key]
	if len(gs.told) < maxGuests {
		gs.told[key] = true
	} else {
		known = true // enough was said
	}
	gs.mu.Unlock()
	if !known {
		gs.b.at.Logger.Warn("agent of RockBot is left out", "agent", of, "err", why)
	}
}

// put takes a card, which replaces that of the same agent.
func (gs *guests) put(c *card, pinned bool, heard time.Time) error {
	c.cut()
	is, err := cardOf(c, gs.b.o.prefix)
	if err != nil {
		return err
	}
	id, err := transport.AgentID(is.Name)
	if err != nil {
		return err
	}
	if transport.IsReserved(id) {
		return fmt.Errorf("the name %s is Cortex's own: start Cortex with --rockbot-prefix", id)
	}
	weight := kit.Weight(is)
	gs.mu.Lock()
	defer gs.mu.Unlock()
	key := strings.ToLower(c.AgentName)
	g := gs.by[key]
	switch {
	case g == nil && c.IsDeregistering:
		return nil
	case !c.IsDeregistering:
		err = gs.fits(g, kit.Card{Weight: weight})
	}
	switch {
	case err != nil:
		return err
	case g == nil || g.name != c.AgentName && !g.pinned:
		for other, is := range gs.by {
			if is.id == id && other != key {
				return fmt.Errorf("%s is called %s in Cortex, as %s is: choose another name", c.AgentName, id, is.name)
			}
		}
	}
	if g == nil || g.id != id && !g.pinned { // keys differ by case, so that it is another one for RabbitMQ
		if g != nil {
			if len(gs.gone) >= maxGuests {
				return fmt.Errorf("%s is called %s now, as too many others are: it is taken when it says so again", g.name, c.AgentName)
			}
			gs.gone[g.id] = true // run may be adding it just now
		}
		g = &guest{b: gs.b, name: c.AgentName, id: id}
		gs.by[key] = g
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pinned = g.pinned || pinned
	if g.left = c.IsDeregistering; !g.left || g.theirs == nil {
		is.Name = gs.b.o.prefix + g.name
		g.theirs, g.card, g.weight, g.heard = c, is, weight, heard
	}
	gs.wake()
	return nil
}

// fits returns an error if there is no room for a card of g, which is nil for an agent that is not known. gs.mu is held.
func (gs *guests) fits(g *guest, c kit.Card) error {
	var old *kit.Card
	var others []kit.Card
	for _, other := range gs.by {
		other.mu.Lock()
		is := kit.Card{Weight: other.weight}
		other.mu.Unlock()
		if other == g {
			old = &is
		} else {
			others = append(others, is)
		}
	}
	return kit.Fits(slices.Values(others), c, old, maxGuests, gs.held)
}

// pin takes the agents of a file, which get work also while they are away.
func (gs *guests) pin(cards []*card) error {
	for _, c := range cards {
		c.IsDeregistering = false
		if err := gs.put(c, true, time.Time{}); err != nil {
			return fmt.Errorf("%s: %w", c.AgentName, err)
		}
	}
	return nil
}

// run makes Cortex know the agents that are there, until ctx ends.
func (gs *guests) run(ctx context.Context) error {
	tick := time.NewTicker(min(lookEach, gs.b.times.silent/2))
	defer tick.Stop()
	for {
		gs.look(ctx)
		select {
		case <-gs.more:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look makes Cortex know what has changed.
func (gs *guests) look(ctx context.Context) {
	gone, all := gs.due()
	for _, id := range gone {
		gs.b.host.Remove(id)
	}
	for _, g := range all {
		gs.settle(ctx, g)
	}
}

// settle makes Cortex know what there is to know of an agent. One that has left stays until its tasks have their answers.
func (gs *guests) settle(ctx context.Context, g *guest) {
	if g.away() && gs.b.book.waiting(g.name) == 0 {
		if g.served != nil {
			gs.b.host.Remove(g.id)
		}
		gs.mu.Lock()
		if key := strings.ToLower(g.name); gs.by[key] == g && g.away() {
			delete(gs.by, key)
		}
		gs.mu.Unlock()
		gs.forget(ctx, g)
		return
	}
	card := g.shown()
	err := gs.taken(g)
	switch {
	case err != nil && g.served != nil:
		gs.b.host.Remove(g.id)
		g.served = nil
	case err != nil:
	case g.served != nil && reflect.DeepEqual(card, g.served):
		return
	case g.served != nil:
		err = gs.b.host.Update(ctx, card)
	default:
		if err = gs.admit(g); err == nil {
			if err = gs.b.host.Add(ctx, card, g); err != nil {
				gs.b.host.Remove(g.id) // it may be there without having been announced
			}
		}
	}
	if ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	known := g.refused
	g.refused = ""
	if err != nil {
		g.refused = err.Error()
	}
	now := g.refused
	g.mu.Unlock()
	if err != nil {
		if known != now {
			gs.b.at.Logger.Warn("agent of RockBot is left out", "agent", g.id, "err", err)
		}
		return
	}
	g.served = card
	gs.keep(ctx, g)
}

// taken returns an error if an agent is left out, or has to give way, since its id is somebody else's.
func (gs *guests) taken(g *guest) error {
	return gs.b.names.Taken(g.id, g.served != nil, "it is left out; start Cortex with --rockbot-prefix to have both")
}

// admit returns why Cortex cannot have an agent whose id is free; nil if it can.
func (gs *guests) admit(g *guest) error {
	g.mu.Lock()
	url := g.theirs.url
	g.mu.Unlock()
	if s := gs.b.line.now(); url != "" && s != nil {
		if there, err := s.exists(taskQueue(g.name)); err == nil && !there {
			return fmt.Errorf("it is called by HTTP, and takes nothing from RabbitMQ: add it with cortex agent a2a %s", shorten.Line(url, 200))
		}
	}
	return nil
}

// A card is noted, so that Cortex knows the agents again after a restart: they send their cards only every two minutes.

// guestNote is a note of an agent.
type guestNote struct {
	Card   *card `json:"card"`
	Second bool  `json:"second,omitempty"`
}

func guestKey(name string) string { return "rockbot." + space.ID("guest", strings.ToLower(name)) }

// keep notes an agent, unless that is its note.
func (gs *guests) keep(ctx context.Context, g *guest) {
	g.mu.Lock()
	pinned := g.pinned
	value, err := json.Marshal(guestNote{g.theirs, g.theirs.second})
	g.mu.Unlock()
	if pinned || err != nil || string(value) == string(g.noted) {
		return
	}
	old, err := gs.notes.Note(ctx, gs.b.at.Tenant, storage.NoteGuest, guestKey(g.name))
	if err == nil && string(old.Value) != string(value) {
		_, err = gs.notes.PutNote(ctx, gs.b.at.Tenant, storage.NoteGuest, storage.Note{Key: guestKey(g.name), Value: value, Version: old.Version})
	}
	if err != nil {
		gs.b.at.Logger.Warn("an agent of RockBot may not be known for a while after a restart", "agent", g.id, "err", err)
		return
	}
	g.noted = value
}

func (gs *guests) forget(ctx context.Context, g *guest) {
	if g.noted == nil {
		return
	}
	if err := gs.notes.DeleteNote(ctx, gs.b.at.Tenant, storage.NoteGuest, guestKey(g.name), 0); err != nil && ctx.Err() == nil {
		gs.b.at.Logger.Warn("an agent of RockBot that has left is still noted", "agent", g.id, "err", err)
	}
}

// read takes over the agents that were there before a restart. Each of them has some time to say that it still is.
func (gs *guests) read(ctx context.Context) error {
	for n, err := range gs.notes.Notes(ctx, gs.b.at.Tenant, storage.NoteGuest) {
		if err != nil {
			return fmt.Errorf("read the notes of agents: %w", err)
		}
		note := guestNote{}
		if json.Unmarshal(n.Value, &note) != nil || note.Card == nil || checkName(note.Card.AgentName) != nil || guestKey(note.Card.AgentName) != n.Key {
			gs.b.unread(storage.NoteGuest, n.Key, "the agent is known again when it announces itself")
			continue
		}
		note.Card.second = note.Second
		if gs.b.owns(note.Card.AgentName) || gs.put(note.Card, false, gs.b.now()) != nil {
			continue
		}
		if g := gs.named(note.Card.AgentName); g != nil {
			g.noted = n.Value
		}
	}
	return nil
}
