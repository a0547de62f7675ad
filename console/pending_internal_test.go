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
