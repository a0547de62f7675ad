package nats

import (
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// leastToErase is how many bytes of a disk work leaves free at least: the server writes before it frees space.
	leastToErase = 16 << 20

	// heldSubject is where the process of the server tells the others of an account, every second, that no work is to be done.
	heldSubject = "cortex.v1.held"
	heldFor     = 3 * diskEvery
)

// hold has Cortex do no work while less is free than half of what new messages leave free, and after a start that gave up some of the reserve until
// that is free again. What is left is for erasing. The caller holds r.mu.
func (r *diskRoom) hold(free, size uint64) {
	least := max(talkOf(size)/2, leastToErase)
	was := r.held.Load()
	switch {
	case r.given > 0:
		least = talkOf(size) + r.given
	case was != nil:
		least += least / 4 // hysteresis
	}
	if free >= least {
		r.given = 0
		if r.held.Swap(nil) != nil {
			r.log.Info("work is done again: the disk of the store has room", "free", transport.SizeText(int64(free)))
		}
		return
	}
	why := fmt.Sprintf("no work is done, and what was accepted waits: the disk of the store has %s free, and %s are needed: make room there, or delete conversations (`cortex conversations delete`)",
		transport.SizeText(int64(free)), transport.SizeText(int64(least)))
	r.held.Store(&why)
	if was == nil {
		r.log.Warn("no work is done: the disk of the store is nearly full", "free", transport.SizeText(int64(free)), "least", transport.SizeText(int64(least)),
			"do", "make room on the disk, or delete conversations (`cortex conversations delete`)")
	}
}

// tellHeld tells other processes that no work is to be done. The caller holds r.mu.
func (r *diskRoom) tellHeld() {
	why := r.held.Load()
	if why == nil {
		return
	}
	for _, p := range r.porters {
		if p == nil {
			continue
		}
		_ = p.nc.Publish(heldSubject, []byte(*why)) // again in a second
	}
}

// held is what the process of the server has told.
type held struct {
	why   string
	until time.Time
}

// hearHeld listens to a server in another process until the returned function is called.
func (b *Bus) hearHeld() (end func()) {
	if b.server != nil {
		return func() {}
	}
	sub, err := b.nc.Subscribe(heldSubject, func(m *natsgo.Msg) {
		b.held.Store(&held{oneLine(string(m.Data), 500), time.Now().Add(heldFor)})
	})
	if err != nil {
		b.log.Warn("whether the server's disk is nearly full cannot be heard", "err", err)
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() }
}

// mayWork returns an error while no work is to be done.
func (b *Bus) mayWork() error {
	var why string
	if b.server != nil && b.server.room != nil {
		if w := b.server.room.held.Load(); w != nil {
			why = *w
		}
	} else if h := b.held.Load(); h != nil && time.Now().Before(h.until) {
		why = h.why
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", transport.ErrUnavailable, why)
}
