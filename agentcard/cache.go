package agentcard

import (
	"crypto/sha256"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// compiled caches the latest schemas, since the same cards are announced again and again.
var compiled = newCache(32 << 20)

// cache caches the latest results by content, up to a total weight. A schema that leaves the cache loses its checker, which can be hundreds of times as large
// as its text.
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

// entryCost is the weight of an entry besides its checker, in bytes.
const entryCost = 1 << 10

func newCache(room int) *cache { return &cache{room: room} }

func (c *cache) get(key contentHash) (result, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Get(key)
}

func (c *cache) put(key contentHash, r result, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.recent.Take(key); ok && old.schema != r.schema {
		old.drop()
	}
	c.recent.Put(key, r, weight+entryCost)
	for c.recent.Size() > c.room && c.recent.Len() > 1 {
		c.recent.Oldest().drop()
		c.recent.Drop()
	}
}

// drop leaves the checker to a validation that goes on.
func (r result) drop() {
	if r.schema != nil {
		r.schema.kept.Store(nil)
	}
}
