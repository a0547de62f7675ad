package kit

import "sync"

// Calls counts the calls of users that wait for something, so that none has too many. Its methods are safe for concurrent use.
type Calls struct {
	mu sync.Mutex
	of map[string]int
}

// Enter reports whether a user may have one more call that waits, of at most most; Leave is called when it is over.
func (c *Calls) Enter(user string, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[user] >= most {
		return false
	}
	if c.of == nil {
		c.of = make(map[string]int)
	}
	c.of[user]++
	return true
}

// Leave ends a call that has entered.
func (c *Calls) Leave(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[user]--; c.of[user] == 0 {
		delete(c.of, user)
	}
}
