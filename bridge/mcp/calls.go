package mcp

import (
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/recent"
)

const (
	maxCalls   = 4096 // of all callers
	repeatIn   = 10 * time.Minute
	maxRunning = 64 // of a caller
)

// calls remembers the turns of calls whose answer the host did not get, so that the same call finds its turn again. A host may have cut a call
// and not said so: a call that still runs counts, too. When there are too many, the caller who has most loses the oldest one, so that nobody has those of
// others forgotten, and done twice.
type calls struct {
	mu      sync.Mutex
	of      recent.Shares[string, string, *call] // by caller, and by a digest of what was asked
	running kit.Calls                            // that wait
}

type call struct {
	key                  string
	contextID, messageID string
	at                   time.Time
}

// begin returns the call of a caller for key: an earlier one whose answer the host did not get, else the one of fresh.
func (c *calls) begin(user, key string, now time.Time, fresh func() (contextID, messageID string)) (contextID, messageID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.of.Get(user, key)
	if !ok || now.Sub(e.at) > repeatIn {
		e = &call{key: key}
		e.contextID, e.messageID = fresh()
		c.of.Put(user, key, e, 1, maxCalls)
	}
	e.at = now
	return e.contextID, e.messageID
}

// got forgets the calls of a caller's turn whose answer the host has got.
func (c *calls) got(user, contextID, messageID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.of.Values(user) {
		if e.contextID == contextID && e.messageID == messageID {
			c.of.Take(user, e.key)
		}
	}
}
