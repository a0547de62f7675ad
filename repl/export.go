package repl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
)

func (c *chat) export(ctx context.Context, path string) error { return c.exportTo(ctx, path, false) }

func (c *chat) exportOver(ctx context.Context, path string) error { return c.exportTo(ctx, path, true) }

// exportTo writes the conversation to a file that only its owner can read. With over it replaces an existing file atomically, following links. It
// never replaces anything but a regular file.
func (c *chat) exportTo(ctx context.Context, path string, over bool) error {
	if path == "" {
		return errors.New("to which file? /export FILE.md")
	}
	if c.Backend.History == nil {
		return errMissing
	}
	path = atHome(path)
	target, err := exportTarget(path)
	if err != nil {
		return err
	}
	var f *os.File
	if over {
		f, err = os.CreateTemp(filepath.Dir(target), ".export-*") // readable by its owner only
	} else {
		f, err = os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; /export! %s replaces it", path, path)
	}
	if err != nil {
		return err
	}
	size, err := c.writeMarkdown(ctx, f)
	if err = errors.Join(err, f.Close()); err == nil && over {
		err = os.Rename(f.Name(), target)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // no file is better than a part of one
		return err
	}
	if abs, err := filepath.Abs(target); err == nil {
		target = abs
	}
	c.ui.Say(fmt.Sprintf("wrote %s (%s)", oneName(target), count(int(size), "byte")), lookDim)
	return nil
}

// exportTarget returns the file that path leads to, which need not exist.
func exportTarget(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return path, nil // opening the file reports other errors
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", fmt.Errorf("%s is a link to nothing; name a file", path)
		}
		if info, err = os.Lstat(target); err != nil {
			return "", err
		}
		path = target
	}
	switch {
	case info.IsDir():
		return "", fmt.Errorf("%s is a folder; name a file in it", path)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no file but a pipe, a socket or a device; name a file", path)
	}
	return path, nil
}

// writeMarkdown writes the conversation: the texts of people and Cortex as they are, those to and from agents as quotations.
func (c *chat) writeMarkdown(ctx context.Context, w io.Writer) (size int64, err error) {
	out := &counting{w: w}
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "# Conversation %s\n", oneLine(c.contextID))
	lines := 0
	for line, err := range c.Backend.History(ctx, c.contextID) {
		if err != nil {
			return 0, fmt.Errorf("read the conversation: %w", err)
		}
		lines++
		at := ""
		if !line.Time.IsZero() {
			at = ", " + line.Time.Format(time.DateTime)
		}
		text := strings.Trim(Sanitize(line.Text), "\n")
		who := speaker(line)
		switch line.Kind {
		case client.LineUser, client.LineAnswer:
			fmt.Fprintf(b, "\n## %s%s\n\n%s\n", who, at, text)
		case client.LineTask:
			fmt.Fprintf(b, "\n> **task for %s**%s\n%s\n", who, at, quote(text))
		case client.LineResult:
			fmt.Fprintf(b, "\n> **%s**%s\n%s\n", who, at, quote(text))
		default:
			fmt.Fprintf(b, "\n> *%s*\n", oneLine(text))
		}
	}
	if lines == 0 {
		return 0, errors.New("nothing was said in this conversation yet")
	}
	err = b.Flush()
	return out.n, err
}

func quote(text string) string { return ">\n> " + strings.ReplaceAll(text, "\n", "\n> ") }

// counting counts the bytes written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
