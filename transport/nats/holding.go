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
	maxHeldCancels   = maxHeldEach / 8 // have places of their own, since they may end what the others wait for; none of them is large
)

// holding is what an inbox holds of one sender: cancellations, and other events with their bytes.
type holding struct{ events, bytes, cancels int }

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

// hold adds d n times; -1 releases it. The caller holds in.mu.
func (in *inbox) hold(d *delivery, n int) {
	in.heldBytes += n * d.bytes
	in.count(d.from, d, n)
	if share := shareOf(d.from); share != d.from {
		in.count(share, d, n)
	}
}

func (in *inbox) count(of string, d *delivery, n int) {
	h := in.holds[of]
	if d.cancel {
		h.cancels += n
	} else {
		h.events += n
		h.bytes += n * d.bytes
	}
	if h.events+h.cancels <= 0 {
		delete(in.holds, of)
		return
	}
	in.holds[of] = h
}

func (h holding) plus(other holding) holding {
	return holding{h.events + other.events, h.bytes + other.bytes, h.cancels + other.cancels}
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
		own, all = own.plus(one), all.plus(its)
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
	h, all := b.holds(t, escaped)
	full := all.events >= maxHeldEach || all.bytes >= maxHeldBytesEach
	if cancel {
		full = all.cancels >= maxHeldCancels
	}
	switch isNameless := shareOf(escaped) != escaped; {
	case full && isNameless:
		h, from = all, "all programs of this bridge"
	case full:
	case isNameless && cancel && h.cancels > 3*(maxHeldCancels-all.cancels):
	case isNameless && !cancel && (h.events > 3*(maxHeldEach-all.events) || h.bytes > 3*(maxHeldBytesEach-all.bytes)):
	default:
		return ""
	}
	return fmt.Sprintf("%d events of %s, %d bytes, and %d cancellations wait for what was said before them in their conversations: go on when they are answered",
		h.events, from, h.bytes, h.cancels)
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
