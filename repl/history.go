package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// maxHistory bounds the entries of the history.
const maxHistory = 1000

// history is the file of typed texts, one per line, oldest first. Several chats may append to it.
type history struct {
	path string // "" stores nothing
	last string
}

var (
	escapeText   = strings.NewReplacer("\\", "\\\\", "\n", "\\n")
	unescapeText = strings.NewReplacer("\\\\", "\\", "\\n", "\n")
)

// load returns the texts in the file, and makes it readable by its owner only. It truncates a file that has grown too long.
func (h *history) load() ([]string, error) {
	if h.path == "" {
		return nil, nil
	}
	b, err := readTail(h.path, maxHistory*maxRecall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	long := len(lines) > maxHistory
	lines = lines[max(0, len(lines)-maxHistory):]
	if long {
		if err := taskfile.Write(h.path, []byte(strings.Join(lines, "\n")+"\n")); err != nil {
			return nil, err
		}
	} else if err := os.Chmod(h.path, 0o600); err != nil {
		return nil, err
	}
	var texts []string
	for _, line := range lines {
		if text := Sanitize(unescapeText.Replace(line)); text != "" {
			texts = append(texts, text)
			h.last = text
		}
	}
	return texts, nil
}

// add appends text, unless it repeats the last entry, begins with a space (the user's way to keep it out), or is long. It reports whether the arrow
// keys should recall the text.
func (h *history) add(text string) (bool, error) {
	if text == h.last || strings.HasPrefix(text, " ") || len(text) > maxRecall {
		return false, nil
	}
	h.last = text
	if h.path == "" {
		return true, nil
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600) // it may have become a pipe
	if err != nil {
		return true, err
	}
	if err = regular(f.Stat()); err == nil {
		_, err = f.WriteString(escapeText.Replace(text) + "\n")
	}
	return true, errors.Join(err, f.Close())
}

// readTail returns the lines within the last size bytes of a file.
func readTail(path string, size int64) ([]byte, error) {
	if err := regular(os.Stat(path)); err != nil { // before opening: opening a pipe blocks
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err := regular(info, err); err != nil {
		return nil, err
	}
	skip := info.Size() - size
	if skip > 0 {
		if _, err := f.Seek(skip, io.SeekStart); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, size))
	if skip > 0 {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b, err
}

// regular returns an error for anything but a regular file.
func regular(info fs.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", info.Name())
	}
	return err
}
