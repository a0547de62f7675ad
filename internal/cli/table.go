package cli

import (
	"io"

	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/repl"
)

// show prints a table: fitted to a terminal, or in full elsewhere.
func (e *env) show(t *table.Table) error {
	quiet := func(text string) string { return repl.Quiet(e.stdout, e.settings.color.value, text) }
	return e.write(t.Render(screen.Width(e.stdout), quiet))
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
func (e *env) say(format string, args ...any) { _, _ = screen.Print(e.stderr, format, args...) } // nobody is left to tell

// tell prints a sentence on standard output, like say.
func (e *env) tell(format string, args ...any) { _, _ = screen.Print(e.stdout, format, args...) } // which remembers that it failed
