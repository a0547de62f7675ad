package mcp

import (
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

const (
	maxCalls   = 1024
	repeatIn   = 10 * time.Minute
	maxRunning = 64 // of a caller
)

// calls remembers the turns of calls whose answer the host did not get, so that the same call finds its turn again. A host may have cut a call
// and not said so: a call that still runs counts, too.
type calls struct {
	mu      sync.Mutex
	of      map[string]*call // by a digest of what was asked, and by whom
	running kit.Calls        // that wait
}

type call struct {
	contextID, messageID string
	at                   time.Time
}

// begin returns the call for key: an earlier one whose answer the host did not get, else the one of fresh.
func (c *calls) begin(key string, now time.Time, fresh func() (contextID, messageID string)) (contextID, messageID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.of[key]
	if e == nil || now.Sub(e.at) > repeatIn {
		if c.of == nil {
			c.of = make(map[string]*call)
		}
		c.drop()
		e = new(call)
		e.contextID, e.messageID = fresh()
		c.of[key] = e
	}
	e.at = now
	return e.contextID, e.messageID
}

// got forgets the call of a turn whose answer the host has got.
func (c *calls) got(contextID, messageID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.of {
		if e.contextID == contextID && e.messageID == messageID {
			delete(c.of, key)
		}
	}
}

// drop makes room for one more.
func (c *calls) drop() {
	if len(c.of) < maxCalls {
		return
	}
	var oldest string
	for key, e := range c.of {
		if oldest == "" || e.at.Before(c.of[oldest].at) {
			oldest = key
		}
	}
	delete(c.of, oldest)
}
