package screen

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/repl"
)

// IsTerminal reports whether a stream of a command is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width returns the width of a terminal in columns, or 0 when w is not a terminal.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok && IsTerminal(f) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return max(width, 0)
		}
	}
	return 0
}

// Print prints text, wrapped between words to the width of a terminal.
func Print(w io.Writer, format string, args ...any) (int, error) {
	return io.WriteString(w, Fit(w, fmt.Sprintf(format, args...)+"\n"))
}

// Fit wraps text between words to the width of w, if that is a terminal.
func Fit(w io.Writer, text string) string {
	if width := Width(w); width > 0 {
		return repl.WrapText(text, width)
	}
	return text
}

// OneAtATime makes w safe for concurrent use. Files are.
func OneAtATime(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &locked{w: w}
}

// locked is a writer that is safe for concurrent use.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer].
func (o *locked) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}
