package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/repl"
)

// show prints a table: fitted to a terminal, or in full elsewhere.
func (e *env) show(t *table.Table) error {
	quiet := func(text string) string { return repl.Quiet(e.stdout, e.settings.color.value, text) }
	return e.write(t.Render(screenWidth(e.stdout), quiet))
}

// showWhole prints a table in full, also on a terminal, where every column is needed.
func (e *env) showWhole(t *table.Table) error {
	return e.write(t.Render(0, nil))
}

func (e *env) write(text string) error {
	if text == "" {
		return nil // standard error may fail, too
	}
	_, err := io.WriteString(e.stdout, text)
	return err
}

// say prints a sentence on standard error, wrapped between words on a terminal.
func (e *env) say(format string, args ...any) { _, _ = printText(e.stderr, format, args...) } // nobody is left to tell

// tell prints a sentence on standard output, like say.
func (e *env) tell(format string, args ...any) { _, _ = printText(e.stdout, format, args...) } // which remembers that it failed

// printText prints text, wrapped between words to the width of a terminal.
func printText(w io.Writer, format string, args ...any) (int, error) {
	text := fmt.Sprintf(format, args...) + "\n"
	if width := screenWidth(w); width > 0 {
		text = repl.WrapText(text, width)
	}
	return io.WriteString(w, text)
}

// screenWidth returns the width of a terminal in columns, or 0 when w is not a terminal.
func screenWidth(w io.Writer) int {
	if one, ok := w.(*oneAtATime); ok {
		w = one.w
	}
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return max(width, 0)
		}
	}
	return 0
}
