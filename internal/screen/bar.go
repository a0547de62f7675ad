package screen

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
)

const (
	barWidth = 24
	barEvery = 100 * time.Millisecond // a terminal needs no more frequent updates
)

// bar is a progress line on standard error, drawn only on a terminal. Its methods are safe for concurrent use.
type bar struct {
	w io.Writer // nil: quiet

	mu    sync.Mutex
	what  string
	drawn time.Time
}

// NewBar returns a bar on a standard error.
func NewBar(w io.Writer) *bar {
	if !IsTerminal(w) {
		return &bar{}
	}
	return &bar{w: w}
}

// Draw shows that done of total units of what are done.
func (b *bar) Draw(what string, done, total int) {
	if b.w == nil || total <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if what == b.what && done < total && now.Sub(b.drawn) < barEvery {
		return
	}
	b.what, b.drawn = what, now
	full := barWidth * min(max(done, 0), total) / total
	fmt.Fprintf(b.w, "\r\x1b[K[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), prompt.Clean(what, 50))
}

// Erase clears the line.
func (b *bar) Erase() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil && !b.drawn.IsZero() {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
	b.what, b.drawn = "", time.Time{}
}
