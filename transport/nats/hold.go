package nats

import (
	"fmt"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// leastToErase is how many bytes of a disk work leaves free at least: the server writes before it frees space.
	leastToErase = 16 << 20

	// heldSubject is where the process of the server tells the others of an account, every second, that no work is to be done.
	heldSubject = "cortex.v1.held"
	// shortSubject is the same for what is refused while work is done.
	shortSubject = "cortex.v1.short"
	toldFor      = 3 * diskEvery

	// While no work is done, nobody takes events from Cortex's inbox. Those that may come nevertheless, such as results and cancellations, have this many
	// bytes: all accounts together, each account at most, and of that one sender. The rest is refused until work is done again.
	maxHeldTotal   = leastToErase / 4
	maxHeldAccount = 1 << 20
	heldSenders    = 8
)

// allowance counts what an account has stored since no work is done.
type allowance struct {
	all int            // bytes
	by  map[string]int // of them, by sender
}

// whileHeld returns ErrFull for an event of work in progress when no work is done and its sender, or the account, has stored as much as it may meanwhile.
func (r *diskRoom) whileHeld(i *interceptor, from string, size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.held.Load()
	if why == nil {
		return nil
	}
	most := min(maxHeldAccount, maxHeldTotal/max(len(r.interceptors), 1))
	if i.held.all+size > most || i.held.by[from]+size > most/heldSenders {
		return fmt.Errorf("%w: %s", transport.ErrFull, *why)
	}
	if i.held.by == nil {
		i.held.by = map[string]int{}
	}
	i.held.all += size
	i.held.by[from] += size
	return nil
}

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
	leastInodes := uint64(disk.LeastInodes / 2)
	if was != nil {
		leastInodes = disk.LeastInodes
	}
	inodes, few := r.inodes(r.dir, leastInodes)
	if free >= least {
		r.given = 0
	}
	if free >= least && !few {
		if r.held.Swap(nil) != nil {
			for _, i := range r.interceptors {
				if i != nil {
					i.held = allowance{}
				}
			}
			r.log.Info("work is done again: the disk of the store has room", "free", transport.SizeText(int64(free)))
		}
		return
	}
	advice := "or delete"
	if r.most != "" { // what others have filled may have no room for what deletes
		advice = "and then delete"
	}
	advice += " conversations (`cortex conversations delete`)"
	why := fmt.Sprintf("no work is done, and what was accepted waits: the disk of the store has %s free, and %s are needed: make room there, %s",
		transport.SizeText(int64(free)), transport.SizeText(int64(least)), advice)
	if few && free >= least {
		why = "no work is done, and what was accepted waits: the store has " + disk.InodesText(inodes)
	}
	r.held.Store(&why)
	switch {
	case was != nil:
	case few && free >= least:
		r.log.Warn("no work is done: the disk of the store can have hardly any more files", "inodes", inodes, "least", leastInodes,
			"do", "remove files from the disk (`df -i` shows how many it may have)")
	default:
		attrs := []any{
			"free", transport.SizeText(int64(free)), "least", transport.SizeText(int64(least)),
			"do", "make room on the disk, " + advice,
		}
		if r.most != "" {
			attrs = append(attrs, "most", r.most)
		}
		r.log.Warn("no work is done: the disk of the store is nearly full", attrs...)
	}
}

// tell tells other processes that no work is to be done, and what is refused. The caller holds r.mu.
func (r *diskRoom) tell() {
	for subject, why := range map[string]*string{heldSubject: r.held.Load(), shortSubject: r.shortText.Load()} {
		if why == nil {
			continue
		}
		for _, i := range r.interceptors {
			if i != nil {
				_ = i.nc.Publish(subject, []byte(*why)) // again in a second
			}
		}
	}
}

// told is what the process of the server tells others, every second while it holds.
type told struct{ last atomic.Pointer[saying] }

// saying is a text and when it ceases to hold.
type saying struct {
	why   string
	until time.Time
}

// hear keeps a message of the server's process.
func (t *told) hear(m *natsgo.Msg) {
	t.last.Store(&saying{oneLine(string(m.Data), 500), time.Now().Add(toldFor)})
}

// now returns what holds now, or "".
func (t *told) now() string {
	if s := t.last.Load(); s != nil && time.Now().Before(s.until) {
		return s.why
	}
	return ""
}

// hearRoom listens to a server in another process until the returned function is called.
func (b *Bus) hearRoom() (end func()) {
	if b.server != nil {
		return func() {}
	}
	var all []*natsgo.Subscription
	for subject, of := range map[string]*told{heldSubject: &b.held, shortSubject: &b.refused} {
		sub, err := b.nc.Subscribe(subject, of.hear)
		if err != nil {
			b.log.Warn("whether the server's disk is nearly full cannot be heard", "err", err)
			continue
		}
		all = append(all, sub)
	}
	return func() {
		for _, sub := range all {
			_ = sub.Unsubscribe()
		}
	}
}

// mayWork returns an error while no work is to be done.
func (b *Bus) mayWork() error {
	why := b.held.now()
	if b.server != nil && b.server.room != nil {
		why = textOf(&b.server.room.held)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", transport.ErrUnavailable, why)
}

// short returns what the server refuses for want of room, or "".
func (b *Bus) short() string {
	if b.server != nil && b.server.room != nil {
		return textOf(&b.server.room.shortText)
	}
	return b.refused.now()
}

func textOf(s *atomic.Pointer[string]) string {
	if is := s.Load(); is != nil {
		return *is
	}
	return ""
}
