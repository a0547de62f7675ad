package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// TestPendingIsBounded checks that messages that are in no log yet take bounded memory, whether they have long texts or files, and that those which have
// been there for long, or which are in a log by then, make room.
func TestPendingIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, one := range map[string]view.Turn{"texts": {Text: long}, "files": {Files: []*a2a.Part{a2a.NewRawPart([]byte(long))}}} {
		var p pending
		now := time.Unix(1e9, 0)
		kept := func() (n int) {
			for _, all := range p.of {
				n += len(all)
			}
			return n
		}
		add := func(i int) {
			turn := one
			turn.ID, turn.Began = fmt.Sprint(i), now
			p.add(fmt.Sprint("c", i%7), &turn)
		}
		for i := range 100 {
			add(i)
		}
		if n := kept(); n != pendingBytes>>20 {
			t.Errorf("%s: %d MiB are kept", name, n)
		}
		p.without("c1", now, func(string) bool { return true })
		before := kept()
		add(1)
		if n := kept(); n != before+1 {
			t.Errorf("%s: of %d, %d are kept when one is added", name, before, n)
		}
		now = now.Add(2 * pendingLife)
		for i := range 10 {
			add(i)
		}
		if n := kept(); n > 10 || p.n != n || p.b != n<<20 {
			t.Errorf("%s: %d are kept after a long time, counted as %d with %d bytes", name, n, p.n, p.b)
		}
	}
}

// TestPendingOfStrangers has somebody say ten thousand things, in one conversation and in many: pages of others show none of them, their own page shows a
// few, and what somebody else has said before is still remembered.
func TestPendingOfStrangers(t *testing.T) {
	var p pending
	now := time.Unix(1e9, 0)
	unlogged := func(string) bool { return false }
	p.add("c", &view.Turn{ID: "ada's", From: "user:ada", Began: now, Text: "hello"})
	text := strings.Repeat("x", 100<<10)
	for i := range 10_000 {
		in := "c"
		if i%2 == 0 {
			in = fmt.Sprint("c", i)
		}
		p.add(in, &view.Turn{ID: fmt.Sprint(i), From: "user:bob", Began: now.Add(time.Duration(i+1) * time.Millisecond), Text: text})
	}
	if all := p.shown("c", "user:ada", now, unlogged); len(all) != 1 || all[0].ID != "ada's" {
		t.Errorf("ada's page shows %d pending messages, want hers", len(all))
	}
	all := p.shown("c", "user:bob", now, unlogged)
	if len(all) == 0 || all[len(all)-1].ID != "9999" || len(all) > maxTurns || len(all)*len(text) > maxShown {
		t.Errorf("bob's page shows %d pending messages", len(all))
	}
	if p.n > maxPending || p.b > pendingBytes {
		t.Errorf("%d messages are kept, with %d bytes", p.n, p.b)
	}
	if p.add("c", &view.Turn{ID: "large", From: "user:bob", Began: now, Text: strings.Repeat("x", maxShown+1)}); len(p.shown("c", "user:bob", now, unlogged)) != 1 {
		t.Error("a large message is not shown alone")
	}
}
