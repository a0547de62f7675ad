package agents

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestJoinPartsCopiesOnce adds very many pieces to a long text: it is copied once, not for each of them.
func TestJoinPartsCopiesOnce(t *testing.T) {
	const n = 20_000
	for name, part := range map[string]func(text string) *a2a.Part{
		"text": a2a.NewTextPart,
		"file": func(text string) *a2a.Part { return &a2a.Part{Content: a2a.Raw(text), Filename: "a.txt"} },
	} {
		t.Run(name, func(t *testing.T) {
			long := a2a.ContentParts{part(strings.Repeat("x", 1<<20))}
			more := slices.Repeat(a2a.ContentParts{part("y")}, n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := joinParts(long, more)
			runtime.ReadMemStats(&after)
			if size := sizeOf(got); len(got) != 1 || size < 1<<20+n || sizeOf(long) > size-n {
				t.Errorf("%d parts of %d bytes", len(got), size)
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 64<<20 {
				t.Errorf("%d MB are copied", made>>20)
			}
		})
	}
}
