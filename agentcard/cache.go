package agentcard

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// compiled holds the latest schemas. Cards come again and again, every time the same.
var compiled = newCache(1 << 20)

// cache keeps results by content, the latest ones, as long as their texts are within a bound. What is compiled can be over a
// hundred times as large as its text.
type cache struct {
	mu    sync.Mutex
	room  int // bytes that are left
	order *list.List
	byKey map[contentHash]*list.Element
}

type contentHash = [sha256.Size]byte

type result struct {
	schema *Schema
	err    error
}

type cached struct {
	key  contentHash
	size int
	result
}

// entryCost is what an entry counts beside its text.
const entryCost = 1 << 10

func newCache(room int) *cache {
	return &cache{room: room, order: list.New(), byKey: map[contentHash]*list.Element{}}
}

func (c *cache) get(key contentHash) (result, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return result{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).result, true
}

func (c *cache) put(key contentHash, r result, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return // two compiled it at once
	}
	size += entryCost
	for c.room -= size; c.room < 0 && c.order.Len() > 0; {
		last := c.order.Back()
		old := c.order.Remove(last).(*cached)
		delete(c.byKey, old.key)
		c.room += old.size
	}
	c.byKey[key] = c.order.PushFront(&cached{key: key, size: size, result: r})
}
