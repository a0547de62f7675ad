package nats

import (
	"fmt"
	"slices"

	"github.com/cortex-orchestrator/cortex/transport"
)

// What of one sender may wait in the orchestrator's memory, behind other events of its conversations, before more is refused at the gateway: a
// quarter of what all may have there together, so that nobody keeps the events of others from being asked for.
const (
	maxHeldEach      = 2048
	maxHeldBytesEach = maxHeldBytes / 4
)

// holding is what an inbox holds of one sender.
type holding struct{ events, bytes int }

// hold counts n events of a sender and their bytes, which are less than 0 when they are let go; in.mu is held.
func (in *inbox) hold(from string, n, bytes int) {
	h := in.holds[from]
	h.events += n
	h.bytes += bytes
	if h.events <= 0 {
		delete(in.holds, from)
		return
	}
	in.holds[from] = h
}

// holds returns what this process's subscribers of an inbox hold of a sender.
func (b *Bus) holds(t transport.Topic, from string) (all holding) {
	b.mu.Lock()
	inboxes := slices.Clone(b.ordered)
	b.mu.Unlock()
	for _, in := range inboxes {
		if in.topic != t {
			continue
		}
		in.mu.Lock()
		h := in.holds[transport.Escape(from)]
		in.mu.Unlock()
		all.events += h.events
		all.bytes += h.bytes
	}
	return all
}

// mayWait returns why nothing more of c is taken while so much of it waits, or nil.
func (g *gateway) mayWait(c *caller) error {
	h := g.bus.holds(transport.Inbox(g.tenant, transport.Cortex), c.who.ID)
	if h.events < maxHeldEach && h.bytes < maxHeldBytesEach {
		return nil
	}
	return fmt.Errorf("%w: %d events of %s, %d bytes, wait for what was said before them in their conversations: go on when they are answered",
		errTooMuch, h.events, c.who, h.bytes)
}
