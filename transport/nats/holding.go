package nats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of one sender's events that wait in the orchestrator's memory behind others of their conversations: a quarter of the bounds of all senders
// together, so that one sender cannot keep the orchestrator from pulling events of others. Above them the gateway refuses the sender's events, and what
// senders ask by way of this process is refused.
const (
	maxHeldEach      = 2048
	maxHeldBytesEach = maxHeldBytes / 4
	spareForCancels  = maxHeldEach / 8  // events above maxHeldEach, of cancellations only: they may end what the others wait for
	spareBytes       = maxHeldBytesEach // likewise bytes above maxHeldBytesEach: a cancellation can be as large as a message
)

// holding is what an inbox holds of one sender.
type holding struct{ events, bytes int }

// nameless are what the names of senders begin with, escaped, that programs of a bridge without keys choose: all of a bridge have one share, of which each name has at
// most three times as much as is free. A name proves nothing, so that with a share for each one program would have those of all.
var nameless = []string{transport.Escape("user:" + transport.PeerPrefix), transport.Escape("rockbot:"), transport.Escape("rtfs:")}

// shareOf returns whose share an escaped sender has.
func shareOf(from string) string {
	for _, prefix := range nameless {
		if strings.HasPrefix(from, prefix) {
			return prefix
		}
	}
	return from
}

// hold adds n events of an escaped sender and their bytes; negative numbers release them. The caller holds in.mu.
func (in *inbox) hold(from string, n, bytes int) {
	in.count(from, n, bytes)
	if share := shareOf(from); share != from {
		in.count(share, n, bytes)
	}
}

func (in *inbox) count(of string, n, bytes int) {
	h := in.holds[of]
	h.events += n
	h.bytes += bytes
	if h.events <= 0 {
		delete(in.holds, of)
		return
	}
	in.holds[of] = h
}

// holds returns what the subscribers of an inbox in this process hold of an escaped sender, and of all who have its share.
func (b *Bus) holds(t transport.Topic, from string) (own, all holding) {
	b.mu.Lock()
	inboxes := slices.Clone(b.ordered)
	b.mu.Unlock()
	for _, in := range inboxes {
		if in.topic != t {
			continue
		}
		in.mu.Lock()
		one, its := in.holds[from], in.holds[shareOf(from)]
		in.mu.Unlock()
		own.events, own.bytes = own.events+one.events, own.bytes+one.bytes
		all.events, all.bytes = all.events+its.events, all.bytes+its.bytes
	}
	return own, all
}

// mayWait returns errTooMuch while too many events of c wait in the orchestrator's memory.
func (g *gateway) mayWait(c *caller, cancel bool) error {
	why := g.bus.tooMuchHeld(transport.Inbox(g.tenant, transport.Cortex), c.who.ID, cancel)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errTooMuch, why)
}

// tooMuchHeld returns a text while too many events of a sender wait in an inbox of this process; otherwise "".
func (b *Bus) tooMuchHeld(t transport.Topic, from string, cancel bool) string {
	escaped := transport.Escape(from)
	own, all := b.holds(t, escaped)
	events, bytes := maxHeldEach, maxHeldBytesEach
	if cancel {
		events, bytes = events+spareForCancels, bytes+spareBytes
	}
	h, whose, isNameless := all, from, shareOf(escaped) != escaped
	switch {
	case all.events >= events || all.bytes >= bytes:
		if isNameless {
			whose = "all programs of this bridge"
		}
	case isNameless && (own.events > 3*(events-all.events) || own.bytes > 3*(bytes-all.bytes)):
		h = own
	default:
		return ""
	}
	return fmt.Sprintf("%d events of %s, %d bytes, wait for what was said before them in their conversations: go on when they are answered", h.events, whose, h.bytes)
}

// mayWait returns ErrFull for what a sender asks by way of this process, such as the console, A2A and bridges, while too many of the sender's events wait in
// its memory. What comes by the gateway is not published by it, see gateway.event.
func (b *Bus) mayWait(t transport.Topic, e *transport.Event) error {
	_, cancel := e.Payload.(*transport.Cancel)
	if !cancel && !isNewWork(t, e) || e.From == transport.Cortex || !b.hasShares(t.Tenant) {
		return nil
	}
	if why := b.tooMuchHeld(t, e.From, cancel); why != "" {
		return fmt.Errorf("%w: %s", transport.ErrFull, why)
	}
	return nil
}

// hasShares reports whether senders of a tenant are who they say they are, and have shares: this process serves their gateway.
func (b *Bus) hasShares(tenant string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gateways[tenant] != nil
}
