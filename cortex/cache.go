package cortex

import (
	"container/list"
	"sync"
)

// cacheBytes bounds the folds that are kept, by the estimate of Conversation.weight.
const cacheBytes = 256 << 20

// cache keeps the folds of the conversations used last. A fold is taken out while it is used and put back when it stands
// for the log again, so that a half-applied one is never seen and no lock is held while a decider works.
type cache struct {
	mu    sync.Mutex
	order *list.List // of *Conversation, most recent first
	byKey map[conversationKey]*list.Element
	bytes int
}

type conversationKey struct{ tenant, contextID string }

func newCache() *cache {
	return &cache{order: list.New(), byKey: map[conversationKey]*list.Element{}}
}

// take removes and returns the fold, or nil.
func (c *cache) take(k conversationKey) *Conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[k]
	if el == nil {
		return nil
	}
	return c.remove(el)
}

// put keeps a fold that stands for the log, and lets the oldest go when they are too many.
func (c *cache) put(conv *Conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := conversationKey{conv.Tenant, conv.ContextID}
	if el := c.byKey[k]; el != nil {
		c.remove(el)
	}
	conv.cached = conv.weight()
	c.bytes += conv.cached
	c.byKey[k] = c.order.PushFront(conv)
	for c.bytes > cacheBytes && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(el *list.Element) *Conversation {
	conv := c.order.Remove(el).(*Conversation)
	delete(c.byKey, conversationKey{conv.Tenant, conv.ContextID})
	c.bytes -= conv.cached
	return conv
}
