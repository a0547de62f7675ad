package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/together"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

// Bounds of what live pages keep of long conversations in memory, in bytes.
const (
	mostKept = 256 << 20
	ownKept  = 64 << 20 // of a person
	freeKept = 64 << 10 // of a conversation, which needs no room
)

var (
	errKept = wrong{http.StatusTooManyRequests, "too many live pages of long conversations are open: close some"}
	// errOther is returned when a log is not that of the conversation that was read: that one was deleted.
	errOther = errors.New("another conversation")
)

// readings are the conversations of live pages, for each person. They are safe for concurrent use.
type readings struct {
	mu sync.Mutex
	of map[readingKey]*reading
}

type readingKey struct{ user, contextID string }

// reading is a conversation for all live pages that a person has of it: its log is read and decoded once for them, and takes memory once. Its methods are
// safe for concurrent use.
type reading struct {
	c     *Console
	key   readingKey
	pages int // guarded by readings.mu
	asks  together.Asks[struct{}, struct{}]

	mu      sync.RWMutex // guards what follows; only goOn, of which one runs at a time, changes turns
	turns   *view.Turns
	changed map[string]conversation.Version // by turn, the entry that has changed it last
	before  conversation.Version            // of the entry before the last one
	joined  bool                            // by a page that must not be shown what was deleted since
	began   time.Time                       // when the log was read last
	kept    int64                           // bytes that it has room for
	left    bool                            // no page has it any more
	err     error                           // why it is not read any more
}

// enter returns the reading of a conversation for one more page, until leave.
func (k *readings) enter(c *Console, who Person, contextID string) *reading {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := readingKey{who.User, contextID}
	rd := k.of[key]
	if rd == nil {
		rd = &reading{
			c: c, key: key, changed: make(map[string]conversation.Version),
			turns: view.NewTurns(c.cfg.Client.Tenant, contextID, view.Keep{Turns: maxTurns, Text: maxText, All: maxLive}),
		}
		if k.of == nil {
			k.of = make(map[readingKey]*reading)
		}
		k.of[key] = rd
	}
	rd.pages++
	rd.mu.Lock()
	rd.joined = true
	rd.mu.Unlock()
	return rd
}

func (k *readings) leave(rd *reading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if rd.pages--; rd.pages > 0 {
		return
	}
	k.drop(rd)
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.c.kept.Give(rd.key.user, rd.kept)
	rd.kept, rd.left = 0, true
}

// drop has pages that come from now on read anew. The caller holds k.mu.
func (k *readings) drop(rd *reading) {
	if k.of[rd.key] == rd {
		delete(k.of, rd.key)
	}
}

// read reads what is new in the log, once for all pages that want it at the same time.
func (rd *reading) read(ctx context.Context) error {
	_, err := rd.asks.Get(ctx, struct{}{}, func(ctx context.Context) (struct{}, error) { return struct{}{}, rd.goOn(ctx) })
	return err
}

func (rd *reading) goOn(ctx context.Context) error {
	if rd.err != nil {
		return rd.err
	}
	err := rd.load(ctx)
	if err == nil && !rd.hold(ctx) {
		err = errKept
	}
	if err == nil {
		return nil
	}
	rd.mu.Lock()
	if ctx.Err() != nil {
		rd.joined = true // whether the conversation is still there may not have been looked at
		rd.mu.Unlock()
		return err
	}
	rd.err = err
	rd.mu.Unlock()
	k := &rd.c.readings
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(rd)
	return err
}

// load adds the entries that are new. It waits for others that read a part of the store.
func (rd *reading) load(ctx context.Context) error {
	leave, err := rd.c.enterStore(ctx, rd.key.user)
	if err != nil {
		return err
	}
	defer leave() // what others read does not wait for room to keep this
	conv := rd.turns.Conversation
	rd.mu.Lock()
	after, known := conv.Version, !rd.joined || conv.Version == 0
	if !known {
		after = rd.before
	}
	rd.joined, rd.began = false, time.Now()
	rd.mu.Unlock()
	for e, err := range rd.c.cfg.Store.Load(ctx, conv.Tenant, conv.ContextID, after) {
		switch {
		case err != nil:
			return err
		case !known && e.Version != conv.Version:
			return errOther
		case !known:
			known = true
			continue
		}
		if err := rd.add(e); err != nil {
			return err
		}
	}
	if !known {
		return errOther
	}
	return nil
}

func (rd *reading) add(e *conversation.Entry) error {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	last := rd.turns.Conversation.Version
	turns, err := rd.turns.Add(e)
	if err != nil {
		return err
	}
	rd.before = last
	for _, t := range turns {
		rd.changed[t.ID] = e.Version
	}
	for id := range rd.changed {
		if !rd.turns.Has(id) {
			delete(rd.changed, id)
		}
	}
	return nil
}

// hold takes room for what is kept of the conversation, and reports whether there is some.
func (rd *reading) hold(ctx context.Context) bool {
	rd.mu.RLock()
	n, had := int64(rd.turns.Weight()), rd.kept
	rd.mu.RUnlock()
	if n <= freeKept {
		n = 0
	}
	room, user := rd.c.kept, rd.key.user
	if n > had && !room.Take(ctx, user, n-had) {
		return false
	}
	rd.mu.Lock()
	defer rd.mu.Unlock()
	switch {
	case rd.left && n > had:
		room.Give(user, n-had)
	case rd.left:
	case n < had:
		room.Give(user, had-n)
		fallthrough
	default:
		rd.kept = n
	}
	return true
}

// stale reports whether nobody has read the log for so long.
func (rd *reading) stale(long time.Duration) bool {
	rd.mu.RLock()
	defer rd.mu.RUnlock()
	return time.Since(rd.began) >= long
}

// version returns the position in the log up to which it was read.
func (rd *reading) version() conversation.Version {
	rd.mu.RLock()
	defer rd.mu.RUnlock()
	return rd.turns.Conversation.Version
}

// since returns the turns that have changed after a position in the log, and the position up to which these are all. What is in them changes.
func (rd *reading) since(after conversation.Version) (turns []*view.Turn, to conversation.Version) {
	rd.mu.RLock()
	defer rd.mu.RUnlock()
	for _, t := range rd.turns.List {
		if rd.changed[t.ID] > after {
			turns = append(turns, t)
		}
	}
	return turns, rd.turns.Conversation.Version
}
