package cortex

import (
	"container/list"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// cacheBytes bounds the folds that are kept, by the estimate of Conversation.weight.
const cacheBytes = 256 << 20

// cache keeps the folds of the conversations used last. A fold is taken out while it is used and put back when it stands
// for the log again, so that a half-applied one is never seen and no lock is held while a decider works.
type cache struct {
	mu    sync.Mutex
	order *list.List // of *loaded, most recent first
	byKey map[conversation.Key]*list.Element
	bytes int
}

// loaded is a conversation that this process has in memory, and what it knows of it beside the log.
type loaded struct {
	*conversation.Conversation
	epoch  uint64    // ownership epoch under which it was read, see [transport.Event]
	timer  time.Time // that was set last, and has not fired, as far as this process knows; zero: there may be any or none
	fresh  bool      // it was read just now, for the event that is being handled
	weight int       // when it was put into the cache, in bytes
}

func newCache() *cache {
	return &cache{order: list.New(), byKey: map[conversation.Key]*list.Element{}}
}

// take removes and returns the fold, or nil. It may have been put there under another epoch.
func (c *cache) take(k conversation.Key) *loaded {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[k]; el != nil {
		return c.remove(el)
	}
	return nil
}

// drop lets a fold go.
func (c *cache) drop(k conversation.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[k]; el != nil {
		c.remove(el)
	}
}

// put keeps a fold that stands for the log, and lets the oldest go when they are too many.
func (c *cache) put(conv *loaded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := conv.Key()
	if el := c.byKey[k]; el != nil {
		c.remove(el)
	}
	conv.fresh, conv.weight = false, conv.Conversation.Weight()
	c.bytes += conv.weight
	c.byKey[k] = c.order.PushFront(conv)
	for c.bytes > cacheBytes && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(el *list.Element) *loaded {
	conv := c.order.Remove(el).(*loaded)
	delete(c.byKey, conv.Key())
	c.bytes -= conv.weight
	return conv
}
