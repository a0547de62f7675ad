package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestPace has a person ask for more than their share by way of other programs: more is refused, until a second later, and others have theirs.
func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &Pace{Now: func() time.Time { return now }}
	sent := func(from string, n, size int) (all int) {
		for range n {
			switch err := p.Admit(from, size); {
			case err == nil:
				all++
			case !errors.Is(err, transport.ErrFull):
				t.Errorf("Admit() = %v, want ErrFull", err)
			}
		}
		return all
	}
	admitted := func(from string, n int) int { return sent(from, n, 100) }
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d admitted, want %d", what, got, want)
		}
	}
	check("at once", admitted("user:ada", 1000), transport.PersonWorkBurst)
	check("another person", admitted("user:bob", 10), 10)
	check("people with one key", admitted("user", 1000), transport.PersonWorkBurst)
	check("an agent", admitted("weather", 1000), transport.AgentWorkBurst)
	check("a machine", admitted("192.0.2.1", 1000), transport.AgentWorkBurst)
	now = now.Add(time.Second)
	check("a second later", admitted("user:ada", 1000), transport.PersonWork)
	check("an agent, a second later", admitted("weather", 1000), transport.AgentWork)
	check("large messages at once", sent("user:eve", 100, transport.MaxText), transport.WorkBytesBurst/transport.MaxText)
	check("another person's", sent("user:mallory", 10, transport.MaxText), 10)
	now = now.Add(time.Second)
	check("large messages, a second later", sent("user:eve", 100, transport.MaxText), transport.WorkBytes/transport.MaxText)
	check("many at once", admitted("user:carol", 1000), transport.PersonWorkBurst)
	check("large ones above their number", sent("user:carol", 100, transport.MaxText), 0)
	now = now.Add(time.Second)
	check("large ones, a second later: those above took no bytes", sent("user:carol", 100, transport.MaxText), min(transport.PersonWork, transport.WorkBytesBurst/transport.MaxText))
	for i := range maxPaced + 10 {
		_ = p.Admit(fmt.Sprint("user:", i), 0)
	}
	if p.of.Len() > maxPaced {
		t.Errorf("%d people are counted, want at most %d", p.of.Len(), maxPaced)
	}
}
