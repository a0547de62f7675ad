package process

import (
	"bytes"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Bounds of what is kept of lines.
const (
	maxLine   = 1 << 10 // bytes of a line
	lastLines = 10
	lastBytes = 2 << 10
)

// Lines is a writer that calls Each with every line, as it is indented but without control characters, and keeps the last ones. It cuts long lines.
type Lines struct {
	Each func(line string)

	partial []byte
	last    []string
}

// Write implements [io.Writer].
func (w *Lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexAny(b, "\r\n")
		end := i
		if i < 0 {
			end = len(b)
		}
		w.partial = append(w.partial, b[:min(end, maxLine-len(w.partial))]...)
		if i < 0 {
			return n, nil
		}
		w.Flush()
		b = b[i+1:]
	}
}

// Flush ends the current line.
func (w *Lines) Flush() {
	text := shorten.Indented(string(w.partial), maxLine)
	w.partial = w.partial[:0]
	if text == "" {
		return
	}
	w.Each(text)
	if len(w.last) == lastLines {
		w.last = append(w.last[:0], w.last[1:]...)
	}
	w.last = append(w.last, text)
}

// Tail returns the last lines, or their end if they are long.
func (w *Lines) Tail() string {
	text := strings.Join(w.last, "\n")
	if len(text) > lastBytes {
		text = "…" + strings.ToValidUTF8(text[len(text)-lastBytes:], "")
	}
	return text
}
