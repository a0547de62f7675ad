// Package recent keeps values by key, those that were used last in front, and knows how much they are together: who keeps something within a
// bound lets the oldest go.
package recent

import "container/list"

// Cache keeps values. The zero value is empty. Whoever uses one from several goroutines guards it.
type Cache[K comparable, V any] struct {
	order list.List // of *entry, the latest first
	byKey map[K]*list.Element
	size  int
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int
}

// Put keeps a value of some size, in the place of the one that has its key.
func (c *Cache[K, V]) Put(k K, v V, size int) {
	c.Take(k)
	if c.byKey == nil {
		c.byKey = map[K]*list.Element{}
	}
	c.byKey[k] = c.order.PushFront(&entry[K, V]{k, v, size})
	c.size += size
}

// Get returns a value, which is the latest then.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	el := c.byKey[k]
	if el == nil {
		return v, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry[K, V]).value, true
}

// Take removes and returns a value.
func (c *Cache[K, V]) Take(k K) (v V, ok bool) {
	el := c.byKey[k]
	if el == nil {
		return v, false
	}
	return c.remove(el), true
}

// Oldest returns the value that was not used for longest. There must be one.
func (c *Cache[K, V]) Oldest() V { return c.order.Back().Value.(*entry[K, V]).value }

// Drop removes the oldest value. There must be one.
func (c *Cache[K, V]) Drop() { c.remove(c.order.Back()) }

// Len is how many values there are.
func (c *Cache[K, V]) Len() int { return len(c.byKey) }

// Size is how large they are together.
func (c *Cache[K, V]) Size() int { return c.size }

func (c *Cache[K, V]) remove(el *list.Element) V {
	e := c.order.Remove(el).(*entry[K, V])
	delete(c.byKey, e.key)
	c.size -= e.size
	return e.value
}
