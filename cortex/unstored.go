package cortex

import (
	"container/list"
	"encoding/json"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Bounds of the entries that are kept until the store takes them.
const (
	maxUnstored      = 4096
	maxUnstoredBytes = 64 << 20
	unstoredFor      = 15 * time.Minute // without their event having come again: another orchestrator may have it
)

// unstored keeps the entries that cost something and could not be stored, until their events come again: what was decided
// is not paid for a second time. A restart forgets them.
type unstored struct {
	mu    sync.Mutex
	order *list.List // of *unstoredEntry, the one that was put last first
	byKey map[unstoredKey]*list.Element
	bytes int
}

type unstoredKey struct{ tenant, contextID, event string }

type unstoredEntry struct {
	key   unstoredKey
	after conversation.Version // that the conversation had
	entry *conversation.Entry
	since time.Time
	bytes int
}

func newUnstored() *unstored {
	return &unstored{order: list.New(), byKey: map[unstoredKey]*list.Element{}}
}

// take removes and returns what is kept for an event, or nil.
func (u *unstored) take(k unstoredKey) *unstoredEntry {
	u.mu.Lock()
	defer u.mu.Unlock()
	el := u.byKey[k]
	if el == nil {
		return nil
	}
	return u.remove(el)
}

// put keeps an entry that a conversation could not be given behind version after. One that cost nothing is as well made anew.
func (u *unstored) put(conv *conversation.Conversation, after conversation.Version, e *conversation.Entry, now time.Time) {
	if e.Decision == nil && e.Failure == "" && e.Usage == (llm.Usage{}) {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return // nor would a store take it
	}
	kept := &unstoredEntry{unstoredKey{conv.Tenant, conv.ContextID, conversation.EventKey(e.Cause)}, after, e, now, len(b)}
	u.mu.Lock()
	defer u.mu.Unlock()
	if el := u.byKey[kept.key]; el != nil {
		u.remove(el)
	}
	u.byKey[kept.key] = u.order.PushFront(kept)
	u.bytes += kept.bytes
}

// full reports whether nothing more may be paid for that may have to be kept. Letting the oldest go instead would have them
// all decided again and again.
func (u *unstored) full(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.order.Len() >= maxUnstored || u.bytes >= maxUnstoredBytes {
		oldest := u.order.Back()
		if now.Sub(oldest.Value.(*unstoredEntry).since) < unstoredFor {
			return true
		}
		u.remove(oldest)
	}
	return false
}

func (u *unstored) remove(el *list.Element) *unstoredEntry {
	kept := u.order.Remove(el).(*unstoredEntry)
	delete(u.byKey, kept.key)
	u.bytes -= kept.bytes
	return kept
}
