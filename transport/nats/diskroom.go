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
	// noRoomPrefix replaces filePrefix in the subjects of chunks while there is no room for files.
	noRoomPrefix = "cortex.v1.noroom."

	minReserve = 32 << 20 // bytes of the disk that files leave free: a twentieth of it, within these bounds
	maxReserve = 1 << 30
	maxTalk    = 128 << 20 // bytes that new messages leave: half of that, up to this

	diskEvery = time.Second           // the longest pause between two checks
	diskSoon  = 50 * time.Millisecond // and the shortest
	diskPace  = 1 << 30               // bytes a second: little more can be written between two checks
)

// roomAdvice is for the sender of a file, whose credentials may not allow it to delete anything.
const roomAdvice = "whoever runs Cortex can make room there, or delete conversations that have files (`cortex conversations delete`)"

// diskRoom makes a server refuse files while its disk is nearly full: a server whose disk is full stops writing for good, and files are what fills
// it. Chunks are then mapped to a subject that no stream has, where a Bus of this process answers with the reason. This works for all users, with
// and without keys, and writes nothing to the disk.
type diskRoom struct {
	ns   *server.Server
	dir  string
	disk func(dir string) (free, size uint64, err error)
	log  *slog.Logger

	mu      sync.Mutex
	none    bool // files are refused
	silent  bool // new messages are refused too
	free    uint64
	talk    uint64 // bytes that new messages leave free
	known   time.Time
	reserve *reserve
}

// serve checks the disk until done is closed. When the server has run for a while, it also keeps the reserve: a short run needs none.
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

// reserveOf returns how many bytes of a disk of this size files leave free.
func reserveOf(size uint64) uint64 { return min(max(size/20, minReserve), maxReserve) }

// talkOf returns how many bytes of a disk of this size new messages leave free, for the work in progress and for deletions. It is less than what
// files leave free, so that files never cause a message to be refused.
func talkOf(size uint64) uint64 { return min(reserveOf(size)/2, maxTalk) }

// grows is how many bytes on the disk a waiting event may need until it has been handled, as a multiple of its size. In the end it needs about 4
// times its size: the log keeps what the user said, what an agent was asked, and what it answered. Meanwhile the inboxes hold part of that again,
// snapshots are written, and erased data takes room until the server compacts its files. With 4, messages of 200 KB filled a disk of 500 MB within
// seconds after the first refusal; with 12, the free space stayed above what new messages leave free.
const grows = 12

// talkKnown is how long a measurement of the free space is used.
const talkKnown = 50 * time.Millisecond

// forMessage returns ErrFull for a new message while the disk has less free than new messages leave free plus what the bytes that wait in the
// inboxes may grow to. Events of work in progress are not checked, so that it can end.
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
			"do", "make room on the disk, or delete conversations (`cortex conversations delete`)")
	}
	return fmt.Errorf("%w: the disk of the store has %s free, and new messages leave at least %s to the work in progress: whoever runs Cortex can make room there, or delete conversations (`cortex conversations delete`)",
		transport.ErrFull, transport.SizeText(int64(r.free)), transport.SizeText(int64(least)))
}

// look starts or stops refusing files, and returns the time until the next check.
func (r *diskRoom) look() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, size, err := r.disk(r.dir)
	if err != nil {
		return diskEvery // keep the present state
	}
	reserve := reserveOf(size)
	if r.none {
		reserve += reserve / 4 // hysteresis
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
			"do", "make room on the disk, or delete conversations that have files (`cortex conversations delete`)")
	}
	r.divert(true) // each time: an account may be new
	return diskEvery
}

// divert maps chunks of all accounts to noRoomPrefix, or removes that mapping.
func (r *diskRoom) divert(on bool) {
	all, err := r.ns.Jsz(&server.JSzOptions{Accounts: true, Limit: 1 << 20})
	if err != nil {
		return // the server is shutting down
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

// sayNoRoom answers senders of files while the server of this process refuses them.
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
			return // the sender repeats its request
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
