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
	of      map[string]*recent.Cache[string, *call] // by caller, and by a digest of what was asked
	all     int                                     // of all callers
	running kit.Calls                               // that wait
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
	own := c.of[user]
	if own == nil {
		if c.of == nil {
			c.of = make(map[string]*recent.Cache[string, *call])
		}
		own = &recent.Cache[string, *call]{}
		c.of[user] = own
	}
	e, ok := own.Get(key)
	if ok && now.Sub(e.at) > repeatIn {
		own.Take(key)
		c.all--
		ok = false
	}
	if !ok {
		e = &call{key: key}
		e.contextID, e.messageID = fresh()
		own.Put(key, e, 1)
		if c.all++; c.all > maxCalls {
			c.drop()
		}
	}
	e.at = now
	return e.contextID, e.messageID
}

// got forgets the calls of a caller's turn whose answer the host has got.
func (c *calls) got(user, contextID, messageID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.of[user]
	if own == nil {
		return
	}
	for _, e := range own.Values() {
		if e.contextID == contextID && e.messageID == messageID {
			own.Take(e.key)
			c.forgot(user)
		}
	}
}

// drop makes room for one more.
func (c *calls) drop() {
	most := ""
	for user, own := range c.of {
		if most == "" || own.Len() > c.of[most].Len() {
			most = user
		}
	}
	c.of[most].Drop()
	c.forgot(most)
}

// forgot takes note that a call of a caller was forgotten.
func (c *calls) forgot(user string) {
	c.all--
	if c.of[user].Len() == 0 {
		delete(c.of, user)
	}
}
