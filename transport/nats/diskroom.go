package nats

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// noRoomPrefix is before the subjects to which chunks of files go while there is no room for them.
	noRoomPrefix = "cortex.v1.noroom."

	minReserve = 32 << 20 // bytes of the disk that files leave to everything else: a twentieth part of it, within these bounds
	maxReserve = 1 << 30
	maxTalk    = 128 << 20 // bytes that new messages leave: half of that, up to this

	diskEvery = time.Second           // how often it is looked how much is free, at the least
	diskSoon  = 50 * time.Millisecond // and at the most
	diskPace  = 1 << 30               // bytes a second: not much more can be written before it is looked again
)

// roomAdvice is for whoever stores a file, and may have keys with which nothing is deleted.
const roomAdvice = "whoever runs Cortex can make room there, or delete conversations that have files (`cortex sessions delete`)"

// diskRoom has a server take no files while its disk has little room left: a server that finds a full disk writes nothing any more, and files are
// what fills one. Chunks then go to a subject that no stream has, where a Bus of this process says why. So it is for everybody, with keys and
// without, and nothing has to be written on the disk for it.
type diskRoom struct {
	ns   *server.Server
	dir  string
	disk func(dir string) (free, size uint64, err error)
	log  *slog.Logger

	mu      sync.Mutex
	none    bool // there is no room
	silent  bool // there is none for new messages either
	free    uint64
	talk    uint64 // what new messages leave free
	known   time.Time
	reserve *reserve
}

// serve looks until done. When the server has run for a while, it sees to the reserve: a short run needs none.
func (r *diskRoom) serve(done <-chan struct{}) {
	began := time.Now()
	for {
		if time.Since(began) >= reserveAfter {
			r.keepReserve()
		}
		t := time.NewTimer(r.look())
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// reserveOf returns how much of a disk files leave free.
func reserveOf(size uint64) uint64 { return min(max(size/20, minReserve), maxReserve) }

// talkOf returns how much of a disk new messages leave free, for the work in progress and for deleting: less than files do, so that files never
// silence anybody.
func talkOf(size uint64) uint64 { return min(reserveOf(size)/2, maxTalk) }

// grows is how many bytes on the disk an event that waits may take until it has been handled, as a multiple of its own. In the end it is about 4: the
// log has what was said, what an agent was asked, and what it answered. Meanwhile the inboxes have some of that again, there are snapshots, and
// what was erased takes room until the server compacts its files. With 4, messages of 200 KB filled a disk of 500 MB within seconds after the
// first refusal; with 12, the free space stayed above what new messages leave.
const grows = 12

// talkKnown is how old the free space may be that new messages are measured by.
const talkKnown = 50 * time.Millisecond

// forMessage returns ErrFull for a new message while the disk has less left than new messages leave free, besides what the waiting bytes of the
// inboxes may grow to. Whatever belongs to work in progress is not asked about: it is to end.
func (r *diskRoom) forMessage(waiting uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.known) >= talkKnown {
		free, size, err := r.disk(r.dir)
		if err != nil {
			return nil // publishing says what is wrong
		}
		r.free, r.talk, r.known = free, talkOf(size), now
	}
	least := r.talk + grows*waiting
	if r.free >= least {
		if r.silent && r.free >= least+r.talk/4 {
			r.silent = false
			r.log.Info("new messages are taken again: the disk of the store has room", "free", transport.SizeText(int64(r.free)))
		}
		return nil
	}
	if !r.silent {
		r.silent = true
		r.log.Warn("no new messages are taken: the disk of the store is nearly full", "free", transport.SizeText(int64(r.free)), "least", transport.SizeText(int64(least)),
			"do", "make room on the disk, or delete conversations (`cortex sessions delete`)")
	}
	return fmt.Errorf("%w: the disk of the store has %s free, and new messages leave at least %s to the work in progress: whoever runs Cortex can make room there, or delete conversations (`cortex sessions delete`)",
		transport.ErrFull, transport.SizeText(int64(r.free)), transport.SizeText(int64(least)))
}

// look has the server take files, or not, and returns when to look again.
func (r *diskRoom) look() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, size, err := r.disk(r.dir)
	if err != nil {
		return diskEvery // then it is as before
	}
	reserve := reserveOf(size)
	if r.none {
		reserve += reserve / 4 // so that it does not change all the time
	}
	if free >= reserve {
		if r.none {
			r.none = false
			r.divert(false)
			r.log.Info("files are taken again: the disk of the store has room", "free", transport.SizeText(int64(free)))
		}
		return min(max(time.Duration(free-reserve)*time.Second/diskPace, diskSoon), diskEvery)
	}
	if !r.none {
		r.none = true
		r.log.Warn("no files are taken: the disk of the store is nearly full", "free", transport.SizeText(int64(free)), "least", transport.SizeText(int64(reserve)),
			"do", "make room on the disk, or delete conversations that have files (`cortex sessions delete`)")
	}
	r.divert(true) // each time: there may be another account
	return diskEvery
}

// divert has chunks go elsewhere than to their stream, or not.
func (r *diskRoom) divert(on bool) {
	all, err := r.ns.Jsz(&server.JSzOptions{Accounts: true, Limit: 1 << 20})
	if err != nil {
		return // it is ending
	}
	for _, detail := range all.AccountDetails {
		account, err := r.ns.LookupAccount(detail.Id)
		if err == nil && on {
			err = account.AddMapping(filePrefix+">", noRoomPrefix+">")
		} else if err == nil {
			account.RemoveMapping(filePrefix + ">")
		}
		if err != nil {
			r.log.Warn("whether files are taken cannot be changed", "account", detail.Id, "taken", !on, "err", err)
		}
	}
}

// sayNoRoom answers whoever stores a file while the server of this process takes none.
func (b *Bus) sayNoRoom(ctx context.Context) error {
	if b.server == nil || b.server.room == nil || b.who.Limited() {
		return nil
	}
	sub, err := b.nc.QueueSubscribe(noRoomPrefix+">", gatewayQueue, func(m *natsgo.Msg) {
		if m.Reply == "" {
			return
		}
		free, size, err := b.server.room.disk(b.server.room.dir)
		if err != nil {
			return // who stores it asks again
		}
		_ = b.nc.PublishMsg(answer(m.Reply, "", fmt.Errorf(
			"%w: the disk of the store has %s free, and files leave at least %s to everything else: %s",
			transport.ErrFilesFull, transport.SizeText(int64(free)), transport.SizeText(int64(reserveOf(size))), roomAdvice)))
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return b.nc.flush(ctx, sub)
}
