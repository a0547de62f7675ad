package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/repl"
)

// show prints a table: on a terminal in its columns, elsewhere whole.
func (e *env) show(t *table.Table) error {
	quiet := func(text string) string { return repl.Quiet(e.stdout, e.settings.color.value, text) }
	return e.write(t.Render(screenWidth(e.stdout), quiet))
}

// showWhole prints a table as wide as it is, where each of its columns counts.
func (e *env) showWhole(t *table.Table) error {
	return e.write(t.Render(0, nil))
}

func (e *env) write(text string) error {
	if text == "" {
		return nil // even that may fail
	}
	_, err := io.WriteString(e.stdout, text)
	return err
}

// printText writes lines of text, which on a terminal are broken between words so that they keep to it.
func printText(w io.Writer, format string, args ...any) (int, error) {
	text := fmt.Sprintf(format, args...) + "\n"
	if width := screenWidth(w); width > 0 {
		text = repl.WrapText(text, width)
	}
	return io.WriteString(w, text)
}

// screenWidth returns the width of a terminal, or 0 for what is none.
func screenWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return max(width, 0)
		}
	}
	return 0
}
