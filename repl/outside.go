package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// errNoEditor is returned when no editor is configured.
var errNoEditor = errors.New("no editor is set: EDITOR names one, as in EDITOR=nano")

// outside opens text in the user's editor, and returns the edited text.
func (c *chat) outside(ctx context.Context, text string) (string, error) {
	name := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if strings.TrimSpace(name) == "" {
		return text, errNoEditor
	}
	f, err := os.CreateTemp("", "message-*.md") // readable by its owner only
	if err != nil {
		return text, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return text, err
	}
	cmd := editorCommand(context.WithoutCancel(ctx), name, f.Name()) // the editor handles Ctrl-C
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	c.ui.Away(func() { err = cmd.Run() })
	if err != nil {
		return text, fmt.Errorf("%s: %w: the text stays as it was", oneLine(name), err)
	}
	b, err := readTail(f.Name(), transport.MaxText+2)
	if err != nil {
		return text, err
	}
	return strings.TrimRight(string(b), "\n"), nil
}

// editorCommand runs an editor on a file. name may include arguments.
func editorCommand(ctx context.Context, name, path string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		args := append(strings.Fields(name), path)
		return exec.CommandContext(ctx, args[0], args[1:]...)
	}
	return exec.CommandContext(ctx, "sh", "-c", name+` "$1"`, name, path)
}

// change opens a typed line in an editor, and puts the result into the next line.
func (c *chat) change(ctx context.Context, line string) {
	text, err := c.outside(ctx, line)
	if err != nil {
		c.warn(err.Error())
	}
	c.ui.editor.begin(text)
}
