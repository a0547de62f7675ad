package nats

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
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

// diskRoom makes a server refuse files, and later new messages, while its disk is nearly full: a server whose disk is full stops writing for good.
// What is refused is then mapped to subjects that no stream has, where a porter answers with the reason. This works for all accounts and for all
// clients, with and without keys, and writes nothing to the disk.
type diskRoom struct {
	ns    *server.Server
	conns natsgo.InProcessConnProvider
	auth  string // the folder of the server's keys; empty: none
	dir   string
	disk  func(dir string) (free, size uint64, err error)
	log   *slog.Logger

	held atomic.Pointer[string] // why no work is done; nil: it is done

	mu      sync.Mutex
	none    bool               // files are refused
	near    bool               // porters look at what is sent to Cortex
	silent  bool               // new messages are refused
	waiting uint64             // bytes in the inboxes of all accounts
	since   uint64             // bytes of new messages that were admitted since they were counted
	porters map[string]*porter // by account; nil: it was told that there is none
	free    uint64
	talk    uint64 // bytes that new messages leave free
	known   time.Time
	reserve *reserve
	given   uint64 // bytes of the reserve that were given up and have not been free since
}

// serve checks the disk until done is closed. When the server has run for a while, it also keeps the reserve: a short run needs none.
func (r *diskRoom) serve(done <-chan struct{}) {
	defer r.dismiss()
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

// forMessage returns ErrFull for a new message of this size while the disk has less free than new messages leave free plus what the bytes that wait
// in all inboxes may grow to. Of the events of work in progress only large ones are checked, so that it can end.
func (r *diskRoom) forMessage(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.known) >= talkKnown {
		free, size, err := r.disk(r.dir)
		if err != nil {
			return nil // publishing says what is wrong
		}
		r.free, r.talk, r.known = free, talkOf(size), now
	}
	if why := r.held.Load(); why != nil {
		return fmt.Errorf("%w: %s", transport.ErrFull, *why)
	}
	least := r.talk + grows*(r.waiting+r.since+uint64(size))
	if r.free >= least {
		r.since += uint64(size)
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

// look starts or stops refusing files and looking at messages, and returns the time until the next check.
func (r *diskRoom) look() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, size, err := r.disk(r.dir)
	if err != nil {
		return diskEvery // keep the present state
	}
	all, err := r.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Limit: 1 << 20})
	if err != nil {
		return diskEvery // the server is shutting down
	}
	r.free, r.talk, r.known = free, talkOf(size), time.Now()
	r.waiting, r.since = waitingIn(all), 0
	r.hold(free, size)
	files := r.files(free, size)
	messages := r.messages(free, size)
	if r.none || r.near { // each time: an account may be new
		r.divert(all)
	}
	r.tellHeld()
	// Much can arrive between two checks, and grows.
	return min(max(min(files, messages/grows), diskSoon), diskEvery)
}

// files starts or stops refusing files, and returns how long it takes at least until that may change.
func (r *diskRoom) files(free, size uint64) time.Duration {
	reserve := reserveOf(size)
	if r.none {
		reserve += reserve / 4 // hysteresis
	}
	if free >= reserve {
		if r.none {
			r.none = false
			r.unmap(filePrefix + ">")
			r.log.Info("files are taken again: the disk of the store has room", "free", transport.SizeText(int64(free)))
		}
		return time.Duration(free-reserve) * time.Second / diskPace
	}
	if !r.none {
		r.none = true
		r.log.Warn("no files are taken: the disk of the store is nearly full", "free", transport.SizeText(int64(free)), "least", transport.SizeText(int64(reserve)),
			"do", "make room on the disk, or delete conversations that have files (`cortex conversations delete`)")
	}
	return diskEvery
}

// messages starts or stops having the porters look at messages, long before the first one is refused.
func (r *diskRoom) messages(free, size uint64) time.Duration {
	least := max(reserveOf(size), 2*(talkOf(size)+grows*r.waiting))
	if r.near {
		least += least / 4 // hysteresis
	}
	if free < least || r.held.Load() != nil {
		r.near = true
		return diskEvery
	}
	if r.near {
		r.near = false
		r.unmap(messagesToCortex)
	}
	return time.Duration(free-least) * time.Second / diskPace
}

// waitingIn returns how many bytes the inboxes of all accounts hold.
func waitingIn(all *server.JSInfo) (n uint64) {
	for _, account := range all.AccountDetails {
		for _, s := range account.Streams {
			if s.Name == inboxStream {
				n += s.State.Bytes
			}
		}
	}
	return n
}

// divert maps what is refused, or may have to be, to the subjects of the porters.
func (r *diskRoom) divert(all *server.JSInfo) {
	for _, detail := range all.AccountDetails {
		account, err := r.ns.LookupAccount(detail.Id)
		if err != nil {
			continue // it was removed
		}
		hired := r.hire(detail.Id)
		if _, told := r.porters[detail.Id]; hired != nil && !told {
			r.porters[detail.Id] = nil
			r.log.Warn("in one account of the server nobody can be told that the disk is nearly full", "account", detail.Id, "err", hired)
		}
		if r.none {
			err = account.AddMapping(filePrefix+">", noRoomPrefix+">")
		}
		if err == nil && r.near && hired == nil { // without a porter, cancellations would not arrive either
			if err = account.AddMapping(porterLets, cortexInboxes); err == nil {
				err = account.AddMapping(messagesToCortex, porterGets)
			}
		}
		if err != nil {
			r.log.Warn("what is taken cannot be changed", "account", detail.Id, "err", err)
		}
	}
}

// unmap removes a mapping from all accounts.
func (r *diskRoom) unmap(subject string) {
	all, err := r.ns.Jsz(&server.JSzOptions{Accounts: true, Limit: 1 << 20})
	if err != nil {
		return // the server is shutting down
	}
	for _, detail := range all.AccountDetails {
		if account, err := r.ns.LookupAccount(detail.Id); err == nil {
			account.RemoveMapping(subject)
		}
	}
}
