package cli

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
	p := &pace{now: func() time.Time { return now }}
	admitted := func(from string, n int) (all int) {
		for range n {
			switch err := p.admit(from); {
			case err == nil:
				all++
			case !errors.Is(err, transport.ErrFull):
				t.Errorf("admit() = %v, want ErrFull", err)
			}
		}
		return all
	}
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d admitted, want %d", what, got, want)
		}
	}
	check("at once", admitted("user:ada", 1000), transport.PersonWorkBurst)
	check("another person", admitted("user:bob", 10), 10)
	check("an agent", admitted("weather", 1000), transport.PersonWorkBurst)
	now = now.Add(time.Second)
	check("a second later", admitted("user:ada", 1000), transport.PersonWork)
	check("without keys", admitted("user", 1000), 1000)
	for i := range maxPaced + 10 {
		_ = p.admit(fmt.Sprint("user:", i))
	}
	if p.of.Len() > maxPaced {
		t.Errorf("%d people are counted, want at most %d", p.of.Len(), maxPaced)
	}
}
