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
	unstoredFor      = 15 * time.Minute // without their event having come again: another orchestrator may have it
)

// Unstored keeps the entries that cost something and could not be stored, until their events come again: what was decided
// is not paid for a second time. It is safe for concurrent use.
type Unstored struct {
	mu   sync.Mutex
	kept recent.Cache[EventKey, *Kept]
}

// EventKey names an event.
type EventKey struct{ Tenant, ContextID, Event string }

// Kept is an entry that was not stored.
type Kept struct {
	After conversation.Version // that the conversation had
	Entry *conversation.Entry
	since time.Time
}

// NewUnstored returns an empty Unstored.
func NewUnstored() *Unstored { return new(Unstored) }

// Take removes and returns what is kept for an event, or nil.
func (u *Unstored) Take(k EventKey) *Kept {
	u.mu.Lock()
	defer u.mu.Unlock()
	kept, _ := u.kept.Take(k)
	return kept
}

// Put keeps an entry that a conversation could not be given behind version after. One that cost nothing is as well made anew.
func (u *Unstored) Put(conv *conversation.Conversation, after conversation.Version, e *conversation.Entry, now time.Time) {
	if e.Decision == nil && e.Failure == "" && e.Usage == (llm.Usage{}) {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return // nor would a store take it
	}
	key := EventKey{conv.Tenant, conv.ContextID, conversation.EventKey(e.Cause)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept.Put(key, &Kept{after, e, now}, len(b))
}

// Full reports whether nothing more may be paid for that may have to be kept. Letting the oldest go instead would have them
// all decided again and again.
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
