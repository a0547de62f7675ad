// Package recent is a cache of values by key that knows which value was not used for longest, and the total size: a caller with a limit drops
// the oldest values.
package recent

import "container/list"

// Cache keeps values. The zero value is empty. It is not safe for concurrent use.
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

// Put stores a value of some size, replacing the one with the same key.
func (c *Cache[K, V]) Put(k K, v V, size int) {
	c.Take(k)
	if c.byKey == nil {
		c.byKey = map[K]*list.Element{}
	}
	c.byKey[k] = c.order.PushFront(&entry[K, V]{k, v, size})
	c.size += size
}

// Get returns a value, and makes it the latest.
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

// Oldest returns the value that was not used for longest. It panics if the cache is empty.
func (c *Cache[K, V]) Oldest() V { return c.order.Back().Value.(*entry[K, V]).value }

// Drop removes the oldest value. It panics if the cache is empty.
func (c *Cache[K, V]) Drop() { c.remove(c.order.Back()) }

// Values returns the values, the latest first.
func (c *Cache[K, V]) Values() []V {
	all := make([]V, 0, c.Len())
	for el := c.order.Front(); el != nil; el = el.Next() {
		all = append(all, el.Value.(*entry[K, V]).value)
	}
	return all
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return len(c.byKey) }

// Size returns the sum of the values' sizes.
func (c *Cache[K, V]) Size() int { return c.size }

func (c *Cache[K, V]) remove(el *list.Element) V {
	e := c.order.Remove(el).(*entry[K, V])
	delete(c.byKey, e.key)
	c.size -= e.size
	return e.value
}
