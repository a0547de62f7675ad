package console

import (
	"fmt"
	"testing"
	"time"
)

// TestLinksOfOne has one person make links without end, each with another bearer token: the oldest of theirs end, and those of others stay good.
func TestLinksOfOne(t *testing.T) {
	now := time.Unix(1, 0)
	var l links
	other := l.put("user:other", "other", now.Add(time.Minute), now)
	var own []string
	for i := range 2 * maxLinks {
		own = append(own, l.put("user:one", fmt.Sprint("one", i), now.Add(time.Minute+time.Duration(i)), now))
	}
	if _, ok := l.take(own[len(own)-1-maxOwnLinks], now); ok {
		t.Error("a link is good though there are enough newer ones")
	}
	for _, token := range append(own[len(own)-maxOwnLinks:], other) {
		if _, ok := l.take(token, now); !ok {
			t.Errorf("link %q is not good any more", token)
		}
	}
	for i := range maxLinks {
		l.put(fmt.Sprint("user:", i), "of somebody", now.Add(time.Minute), now)
	}
	if l.put("user:one", "one", now.Add(time.Minute), now) != "" || l.put("user:one", "one", now.Add(2*time.Minute), now.Add(time.Minute)) == "" {
		t.Error("there are more links than there may be, or none after their end")
	}
}
