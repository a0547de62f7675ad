package mcp

import (
	"fmt"
	"testing"
	"time"
)

// TestCallsOfOthersAreRemembered has one caller make more calls than are remembered: that is no reason to ask the call of another one twice.
func TestCallsOfOthersAreRemembered(t *testing.T) {
	var c calls
	now := time.Now()
	n := 0
	fresh := func() (contextID, messageID string) {
		n++
		return "c", fmt.Sprint(n)
	}
	_, first := c.begin("ada", "asked", now, fresh)
	_, oldest := c.begin("mallory", "0", now, fresh)
	for i := range 2 * maxCalls {
		c.begin("mallory", fmt.Sprint(i+1), now, fresh)
	}
	if _, again := c.begin("ada", "asked", now, fresh); again != first {
		t.Errorf("the call of another is message %s, and was %s", again, first)
	}
	if _, again := c.begin("mallory", "0", now, fresh); again == oldest {
		t.Error("the oldest call of somebody who has made too many is remembered")
	}
	if got := c.of.Len(); got != maxCalls {
		t.Errorf("%d calls are remembered, want %d", got, maxCalls)
	}
	c.got("mallory", "c", first) // a turn of another
	if _, again := c.begin("ada", "asked", now, fresh); again != first {
		t.Error("an answer for somebody else has the call forgotten")
	}
	c.got("ada", "c", first)
	if _, again := c.begin("ada", "asked", now, fresh); again == first {
		t.Error("a call whose answer has arrived is remembered")
	}
	_, first = c.begin("ada", "asked", now, fresh)
	if _, again := c.begin("ada", "asked", now.Add(repeatIn+time.Second), fresh); again == first {
		t.Error("a call is remembered for too long")
	}
	for _, user := range []string{"ada", "mallory"} {
		for _, e := range c.of.Values(user) {
			c.got(user, e.contextID, e.messageID)
		}
	}
	if got := c.of.Len(); got != 0 {
		t.Errorf("%d calls are left", got)
	}
}
