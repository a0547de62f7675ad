package agentcard

import (
	"crypto/sha256"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// compiled caches the latest schemas, since the same cards are announced again and again.
var compiled = newCache(1 << 20)

// cache caches the latest results by content, up to a total size of their texts. A compiled schema can be over a hundred times as large as its text.
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

// entryCost is the size of an entry, besides its text, in bytes.
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
