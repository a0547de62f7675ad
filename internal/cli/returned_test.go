package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestReturns has agents hand back tasks: who does so for long is told, once in the log, and who has stopped is not. An agent that starts anew is not told.
func TestReturns(t *testing.T) {
	var log bytes.Buffer
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	now := began
	r := &returns{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	hands := func(agent string, times int, stored time.Time) {
		r.note(transport.Returned{Inbox: transport.Inbox("", agent), Stored: stored, Times: times})
	}
	want := func(lines ...string) {
		t.Helper()
		if diff := cmp.Diff(lines, r.trouble()); diff != "" {
			t.Errorf("trouble (-want +got):\n%s", diff)
		}
	}
	hands("evil", 10, began)
	want()
	now = began.Add(31 * time.Second)
	hands("evil", 40, began)
	hands("evil", 41, began)
	hands("evil", 12, began.Add(20*time.Second)) // another task
	hands("starting", 12, began.Add(20*time.Second))
	hands(transport.Cortex, 99, began)
	want("agent evil hands back its tasks: one was delivered to it 41 times in 31s, and ends at its deadline; see why in the agent's log, or end the agent")
	now = now.Add(2 * time.Minute)
	want()
	if n := strings.Count(log.String(), "agent hands back a task again and again"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, &log)
	}
	for i := range maxReturning + 10 {
		hands(fmt.Sprint("a", i), 10, began)
	}
	if len(r.of) != maxReturning {
		t.Errorf("%d agents are known, want %d", len(r.of), maxReturning)
	}
}
