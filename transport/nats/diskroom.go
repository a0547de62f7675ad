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
	maxTalk    = 128 << 20 // bytes that new messages leave: half of that, within these bounds
	minTalk    = 24 << 20  // more than leastToErase: what was accepted goes on between the two

	diskEvery = time.Second           // the longest pause between two checks
	diskSoon  = 50 * time.Millisecond // and the shortest
	diskPace  = 1 << 30               // bytes a second: little more can be written between two checks
)

// roomAdvice is for the sender of a file, whose credentials may not allow it to delete anything.
const roomAdvice = "whoever runs Cortex can make room there, or delete conversations that have files (`cortex conversations delete`)"

// diskRoom makes a server refuse files, and later new messages, while its disk is nearly full: a server whose disk is full stops writing for good.
// What is refused is then mapped to subjects that no stream has, where an interceptor answers with the reason. This works for all accounts and for all
// clients, with and without keys, and writes nothing to the disk.
type diskRoom struct {
	ns    *inspected
	conns natsgo.InProcessConnProvider
	auth  string // the folder of the server's keys; empty: none
	dir   string
	disk  func(dir string) (free, size uint64, err error)
	// inodes says how many more files the disk may have, and whether these are too few.
	inodes func(dir string, least uint64) (free uint64, few bool)
	log    *slog.Logger

	held      atomic.Pointer[string] // why no work is done; nil: it is done
	shortText atomic.Pointer[string] // what is refused although work is done; nil: nothing

	mu           sync.Mutex
	none         bool // files are refused
	near         bool // interceptors look at what is sent to Cortex
	short        shortage
	waiting      uint64                  // bytes in the inboxes of all accounts
	since        uint64                  // bytes of new messages that were admitted since they were counted
	work         uint64                  // bytes of large events of work in progress that were admitted since free was measured
	interceptors map[string]*interceptor // by account; nil: it was told that there is none
	free         uint64
	talk         uint64 // bytes that new messages leave free
	known        time.Time
	reserve      *reserve
	given        uint64            // bytes of the reserve that were given up and have not been free since
	bounds       map[string]*bound // by account, see boundAccounts; nil while there are none
	most         string            // the tenant with most in the store then; "" where there is one
}

// serve checks the disk until done is closed. When the server has run for a while, it also keeps the reserve: a short run needs none.
func (r *diskRoom) serve(done <-chan struct{}) {
	defer r.closeInterceptors()
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
func talkOf(size uint64) uint64 { return min(max(reserveOf(size)/2, minTalk), maxTalk) }

// grows is how many bytes on the disk a waiting event may need until it has been handled, as a multiple of its size. In the end it needs about 4
// times its size: the log keeps what the user said, what an agent was asked, and what it answered. Meanwhile the inboxes hold part of that again,
// snapshots are written, and erased data takes room until the server compacts its files. With 4, messages of 200 KB filled a disk of 500 MB within
// seconds after the first refusal; with 12, the free space stayed above what new messages leave free.
const grows = 12

// talkKnown is how long a measurement of the free space is used.
const talkKnown = 50 * time.Millisecond

// limits returns the largest new message and the largest event of work in progress that are taken with so much free. All that waits, and a new message itself,
// must be able to grow; a large message leaves as much again, so that who sends large ones leaves room for the questions of others. Work in progress
// counts nothing that waits: the tasks wait in the inboxes until their results are stored, and there was room for both when they were accepted.
func (r *diskRoom) limits(free uint64) (message, work uint64) {
	room := (free - min(free, r.talk)) / grows
	waits := r.waiting + r.since
	message = room/2 - min(room/2, waits)
	if message <= smallEvent {
		message = min(room-min(room, waits), smallEvent)
	}
	return message, max(room-min(room, r.work), smallEvent)
}

// measure looks how much is free, unless that was done just now.
func (r *diskRoom) measure() error {
	now := time.Now()
	if now.Sub(r.known) < talkKnown {
		return nil
	}
	free, size, err := r.disk(r.dir)
	if err == nil {
		r.free, r.talk, r.known, r.work = free, talkOf(size), now, 0
	}
	return err
}

// forMessage returns ErrFull for a new message of this size when the disk has too little free.
func (r *diskRoom) forMessage(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.measure() != nil {
		return nil // publishing says what is wrong
	}
	if why := r.held.Load(); why != nil {
		return fmt.Errorf("%w: %s", transport.ErrFull, *why)
	}
	if most, _ := r.limits(r.free); uint64(size) > most {
		return r.full("a new message", size, most)
	}
	r.since += uint64(size)
	return nil
}

// forWork returns ErrFull for a large event of work in progress, such as a result, when the disk has too little free.
func (r *diskRoom) forWork(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.measure() != nil {
		return nil
	}
	if _, most := r.limits(r.free); uint64(size) > most {
		return r.full("a result", size, most)
	}
	r.work += uint64(size)
	return nil
}

// full returns the error for an event of this size, of which kind an event of at most most bytes is taken. The caller holds r.mu.
func (r *diskRoom) full(what string, size int, most uint64) error {
	if most > 0 {
		what += fmt.Sprintf(" of %s is not taken now, but one of %s is", transport.SizeText(int64(size)), transport.SizeText(int64(most)))
	} else {
		what += " is not taken now"
	}
	return fmt.Errorf("%w: the disk of the store has %s free, which are kept for the work in progress: %s: whoever runs Cortex can make room there, or delete conversations (`cortex conversations delete`)",
		transport.ErrFull, transport.SizeText(int64(r.free)), what)
}

// shortage says what is refused for want of room.
type shortage int

const (
	enough  shortage = iota
	noLarge          // what is large
	noNew            // also small new messages
)

// shortageAt returns what is refused with so much free. The caller holds r.mu.
func (r *diskRoom) shortageAt(free uint64) shortage {
	switch message, work := r.limits(free); {
	case message < smallEvent:
		return noNew
	case min(message, work) < transport.MaxPayload:
		return noLarge
	}
	return enough
}

// tellShort keeps and logs what is refused for want of room.
func (r *diskRoom) tellShort() {
	was := r.short
	r.short = max(r.shortageAt(r.free), min(was, r.shortageAt(r.free-min(r.free, r.talk/4)))) // hysteresis
	if r.short == enough {
		r.shortText.Store(nil)
		if was != enough {
			r.log.Info("messages of any size are taken again: the disk of the store has room", "free", transport.SizeText(int64(r.free)))
		}
		return
	}
	message, work := r.limits(r.free)
	what := "no new messages are taken"
	if message > 0 {
		what = fmt.Sprintf("new messages of more than %s are refused", transport.SizeText(int64(message)))
	}
	if work < transport.MaxPayload {
		what += fmt.Sprintf(", results of more than %s wait at their agents", transport.SizeText(int64(work)))
	}
	text := fmt.Sprintf("%s: the disk of the store has %s free: make room there, or delete conversations (`cortex conversations delete`)", what, transport.SizeText(int64(r.free)))
	r.shortText.Store(&text)
	if r.short > was {
		r.log.Warn(what+": the disk of the store is nearly full", "free", transport.SizeText(int64(r.free)), "waiting", transport.SizeText(int64(r.waiting)),
			"do", "make room on the disk, or delete conversations (`cortex conversations delete`)")
	}
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
	r.waiting, r.since, r.work = waitingIn(all), 0, 0
	bounds := r.boundAccounts(all, free, size)
	r.hold(free, size)
	r.tellShort()
	files := r.files(free, size)
	messages := r.messages(free, size)
	if r.none || r.near { // each time: an account may be new
		r.divert(all)
	}
	r.tell()
	// Much can arrive between two checks, and grows.
	return min(max(min(files, messages/grows, bounds), diskSoon), diskEvery)
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
		attrs := []any{
			"free", transport.SizeText(int64(free)), "least", transport.SizeText(int64(reserve)),
			"do", "make room on the disk, or delete conversations that have files (`cortex conversations delete`)",
		}
		if r.most != "" {
			attrs = append(attrs, "most", r.most)
		}
		r.log.Warn("no files are taken: the disk of the store is nearly full", attrs...)
	}
	return diskEvery
}

// messages starts or stops having the interceptors look at messages, long before the first one is refused.
func (r *diskRoom) messages(free, size uint64) time.Duration {
	least := max(reserveOf(size), 2*(talkOf(size)+2*grows*r.waiting), talkOf(size)+2*grows*(r.waiting+transport.MaxPayload))
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

// divert maps what is refused, or may have to be, to the subjects of the interceptors.
func (r *diskRoom) divert(all *server.JSInfo) {
	for _, detail := range all.AccountDetails {
		account, err := r.ns.LookupAccount(detail.Id)
		if err != nil {
			continue // it was removed
		}
		failed := r.intercept(detail.Id)
		if _, told := r.interceptors[detail.Id]; failed != nil && !told {
			r.interceptors[detail.Id] = nil
			r.log.Warn("in one account of the server nobody can be told that the disk is nearly full", "account", detail.Id, "err", failed)
		}
		if r.none {
			err = account.AddMapping(filePrefix+">", noRoomPrefix+">")
		}
		if err == nil && r.near && failed == nil { // without an interceptor, cancellations would not arrive either
			if err = account.AddMapping(passedOn, cortexInboxes); err == nil {
				err = account.AddMapping(messagesToCortex, intercepted)
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
