package agentcard

import (
	"crypto/sha256"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// compiled holds the latest schemas. Cards come again and again, every time the same.
var compiled = newCache(1 << 20)

// cache keeps results by content, the latest ones, as long as their texts are within a bound. What is compiled can be over a
// hundred times as large as its text.
type cache struct {
	mu     sync.Mutex
	room   int // bytes
	recent recent.Cache[contentHash, result]
}

type contentHash = [sha256.Size]byte

type result struct {
	schema *Schema
	err    error
}

// entryCost is what an entry counts beside its text.
const entryCost = 1 << 10

func newCache(room int) *cache { return &cache{room: room} }

func (c *cache) get(key contentHash) (result, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Get(key)
}

func (c *cache) put(key contentHash, r result, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent.Put(key, r, size+entryCost)
	for c.recent.Size() > c.room && c.recent.Len() > 1 {
		c.recent.Drop()
	}
}
