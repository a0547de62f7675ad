package decide

import (
	"fmt"
	"testing"
	"time"
)

// TestRatesAreBounded checks that of very many agents the least recent are forgotten, and not those that ask too often.
func TestRatesAreBounded(t *testing.T) {
	r, now := &rates{}, time.Now()
	refused := 0
	for i := range 10_000 {
		now = now.Add(time.Microsecond)
		r.admit(fmt.Sprint("agent-", i), 0, now)
		if i%100 == 0 && r.admit("hasty", 0, now) != "" {
			refused++
		}
	}
	if n := r.byAgent.Len(); n != 4096 || refused != 90 {
		t.Errorf("%d agents are known, and the hasty one was refused %d times of 100, want 4096 and 90", n, refused)
	}
}
