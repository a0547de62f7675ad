// Package cache is what an orchestrator keeps in memory and may lose: the folds of conversations ([Folds]), and entries that the store did
// not take ([Unstored]). The log is the truth; a restart forgets both.
package cache

import (
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// foldBytes bounds the folds that are kept, by the estimate of [conversation.Conversation.Weight].
const foldBytes = 256 << 20

// Folds keeps the folds of the conversations used last. A fold is taken out while it is used and put back when it stands
// for the log again, so that a half-applied one is never seen and no lock is held while a decider works. It is safe for concurrent use.
type Folds struct {
	mu    sync.Mutex
	folds recent.Cache[conversation.Key, *Fold]
}

// Fold is a conversation that this process has in memory, and what it knows of it beside the log.
type Fold struct {
	*conversation.Conversation
	Epoch uint64    // ownership epoch under which it was read, see [transport.Event]
	Timer time.Time // that was set last, and has not fired, as far as this process knows; zero: there may be any or none
	Fresh bool      // it was read just now, for the event that is being handled
}

// Wakes reports whether a timer that was set earlier will wake the conversation before due: then the next one is set, and another one
// now would be a message more for nothing.
func (f *Fold) Wakes(now, due time.Time) bool {
	return f.Timer.After(now) && !f.Timer.After(due)
}

// NewFolds returns an empty Folds.
func NewFolds() *Folds { return new(Folds) }

// Take removes and returns the fold, or nil. It may have been put there under another epoch.
func (c *Folds) Take(k conversation.Key) *Fold {
	c.mu.Lock()
	defer c.mu.Unlock()
	conv, _ := c.folds.Take(k)
	return conv
}

// Drop lets a fold go.
func (c *Folds) Drop(k conversation.Key) { c.Take(k) }

// Put keeps a fold that stands for the log, and lets the oldest go when they are too many.
func (c *Folds) Put(conv *Fold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conv.Fresh = false
	c.folds.Put(conv.Key(), conv, conv.Conversation.Weight())
	for c.folds.Size() > foldBytes && c.folds.Len() > 1 {
		c.folds.Drop()
	}
}
