package agentstest

import (
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// bidWait is how long [Cortex.Bid] waits, and bidAgain after what time it asks again.
const (
	bidWait  = 5 * time.Second
	bidAgain = 100 * time.Millisecond
)

// Bid asks the agent for what it would do a task of a skill, and returns its bid; nil when none comes within five seconds.
func (c *Cortex) Bid(skill, task string) *transport.Bid {
	c.t.Helper()
	c.mu.Lock()
	c.n++
	id, got := fmt.Sprint("tender-", c.n), make(chan *transport.Bid, 1)
	c.bids[id] = got
	c.mu.Unlock()
	now := time.Now()
	ask := func() {
		if err := c.bus.Publish(c.t.Context(), transport.Control("", agentID), &transport.Event{
			ID: id, Time: now, From: transport.Cortex, ContextID: conversationID,
			Payload: &transport.Tender{ID: id, Skill: skill, Task: task, Until: now.Add(bidWait)},
		}); err != nil {
			c.t.Fatalf("agentstest: %v", err)
		}
	}
	again, late := time.NewTicker(bidAgain), time.After(bidWait)
	defer again.Stop()
	for ask(); ; {
		select {
		case b := <-got:
			return b
		case <-again.C: // the agent may not have listened yet
			ask()
		case <-late:
			return nil
		}
	}
}

// control takes what the agent sends to Cortex's control topic.
func (c *Cortex) control(e *transport.Event) {
	if b, ok := e.Payload.(*transport.Bid); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := c.bids[b.Tender]; got != nil && e.From == agentID {
			delete(c.bids, b.Tender)
			got <- b
		}
	}
}
