package cache

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Bounds of the entries that are kept until the store takes them.
const (
	maxUnstored      = 4096
	maxUnstoredBytes = 64 << 20
	unstoredFor      = 15 * time.Minute // without their event being delivered again: another orchestrator may have got it
)

// Unstored keeps entries that cost something and could not be stored, until their events are delivered again, so that no decision is paid
// for twice. It is safe for concurrent use.
type Unstored struct {
	mu   sync.Mutex
	kept recent.Cache[EventKey, *UnstoredEntry]
}

// EventKey identifies an event.
type EventKey struct{ Tenant, ContextID, Event string }

// UnstoredEntry is an entry that was not stored.
type UnstoredEntry struct {
	After conversation.Version // the conversation's version
	Entry *conversation.Entry
	since time.Time
}

// NewUnstored returns an empty Unstored.
func NewUnstored() *Unstored { return new(Unstored) }

// Take removes and returns what is kept for an event, or returns nil.
func (u *Unstored) Take(k EventKey) *UnstoredEntry {
	u.mu.Lock()
	defer u.mu.Unlock()
	kept, _ := u.kept.Take(k)
	return kept
}

// Put keeps an entry that could not be appended after version after. It drops an entry that cost nothing, which can be made again.
func (u *Unstored) Put(conv *conversation.Conversation, after conversation.Version, e *conversation.Entry, now time.Time) {
	if e.Decision == nil && e.Failure == "" && e.Usage == (llm.Usage{}) {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return // no store would take it either
	}
	key := EventKey{conv.Tenant, conv.ContextID, conversation.EventKey(e.Cause)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept.Put(key, &UnstoredEntry{after, e, now}, len(b))
}

// Full reports whether there is no room for another entry, so that no further decision may be paid for. Evicting the oldest entry instead
// would have all of them decided again and again.
func (u *Unstored) Full(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.kept.Len() >= maxUnstored || u.kept.Size() >= maxUnstoredBytes {
		if now.Sub(u.kept.Oldest().since) < unstoredFor {
			return true
		}
		u.kept.Drop()
	}
	return false
}
