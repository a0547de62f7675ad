// Package cache is what an orchestrator keeps in memory and may lose: the folds of conversations ([Folds]), and entries that the store did
// not take ([Unstored]). The log is the truth; a restart forgets both.
package cache

import (
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// foldBytes bounds the cached folds, in bytes as estimated by [conversation.Conversation.Weight].
const foldBytes = 256 << 20

// Folds caches the folds of the conversations used last. A caller takes a fold out while it uses it, and puts it back when it equals the log
// again: nobody sees a half-applied fold, and no lock is held while a decider works. It is safe for concurrent use.
type Folds struct {
	mu    sync.Mutex
	folds recent.Cache[conversation.Key, *Fold]
}

// Fold is a conversation in memory, and what this process knows about it beside the log.
type Fold struct {
	*conversation.Conversation
	Epoch uint64    // ownership epoch under which it was read, see [transport.Event]
	Timer time.Time // the last timer that this process set and that has not fired; zero: unknown
	Fresh bool      // it was read for the event that is being handled
	Title string    // what the conversation is listed as, if it has begun here; "": not known
	// Erased is when an earlier conversation of this name was deleted (zero: never, as far as is known); nil: not looked up since
	// there is a log. It stays true as long as the fold stands for the log, since another deletion ends that.
	Erased *time.Time
}

// Wakes reports whether an earlier timer will wake the conversation before due. The next timer is set then, so setting one now would waste a
// message.
func (f *Fold) Wakes(now, due time.Time) bool {
	return f.Timer.After(now) && !f.Timer.After(due)
}

// Take removes and returns the fold, or returns nil. The fold may have been put under another epoch.
func (c *Folds) Take(k conversation.Key) *Fold {
	c.mu.Lock()
	defer c.mu.Unlock()
	conv, _ := c.folds.Take(k)
	return conv
}

// Look calls f with the fold, and reports whether there is one that nobody has taken out. f is quick, changes nothing and keeps nothing of the fold
// that may change.
func (c *Folds) Look(k conversation.Key, f func(*Fold)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	conv, ok := c.folds.Get(k)
	if ok {
		f(conv)
	}
	return ok
}

// Put caches a fold that equals the log, and evicts the oldest folds beyond foldBytes.
func (c *Folds) Put(conv *Fold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conv.Fresh = false
	c.folds.Put(conv.Key(), conv, conv.Conversation.Weight())
	for c.folds.Size() > foldBytes && c.folds.Len() > 1 {
		c.folds.Drop()
	}
}
