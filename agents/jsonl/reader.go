package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// maxQuoted bounds how much of a line an error quotes, in bytes.
const maxQuoted = 120

// BadLine is the error for a line that breaks the protocol.
type BadLine struct {
	ID    string // of the task that the line is about, or ""
	Begin string // of the line
	Err   error
}

// Error implements error.
func (e *BadLine) Error() string {
	return fmt.Sprintf("a line is not of the protocol jsonl: %v: %q", e.Err, e.Begin)
}

// Unwrap returns what is wrong with the line.
func (e *BadLine) Unwrap() error { return e.Err }

// maxSkipped bounds what is skipped of a line that is too long, in bytes: it may never end.
const maxSkipped = 64 << 20

// Reader reads the lines of a program.
type Reader struct {
	lines *bufio.Reader
	rest  bool // of a line that is too long is still to be skipped
}

// NewReader returns a reader of lines from r.
func NewReader(r io.Reader) *Reader { return &Reader{lines: bufio.NewReaderSize(r, 64<<10)} }

// Read returns the next line and its size in bytes. It skips empty lines. The error is [io.EOF] at the end, [io.ErrUnexpectedEOF] at one within a line,
// a [*BadLine], or that of the underlying reader. A last line that only lacks its line feed counts.
func (r *Reader) Read() (*Line, int, error) {
	for {
		b, err := r.next()
		if err != nil {
			return nil, 0, err
		}
		said := bytes.TrimSpace(b)
		switch {
		case len(said) == 0:
			continue
		case b[len(b)-1] != '\n' && said[0] == '{' && !json.Valid(said):
			return nil, 0, io.ErrUnexpectedEOF // the program ended while it wrote
		}
		l, err := Parse(b)
		if err != nil {
			bad := &BadLine{Begin: shorten.Marked(string(said), maxQuoted, "…"), Err: err}
			if l != nil {
				bad.ID = l.ID
			}
			return nil, 0, bad
		}
		return l, len(b), nil
	}
}

// next returns the next line.
func (r *Reader) next() ([]byte, error) {
	var line []byte
	if err := r.skip(); err != nil {
		return nil, err
	}
	for {
		piece, err := r.lines.ReadSlice('\n')
		if len(line)+len(piece) > MaxLine+1 { // the line feed does not count
			line = append(line, piece...)
			r.rest = line[len(line)-1] != '\n'
			return nil, &BadLine{
				ID: firstID(line), Begin: shorten.Marked(string(line[:2*maxQuoted]), maxQuoted, "…"), Err: fmt.Errorf("the line has more than %d bytes", MaxLine),
			}
		}
		line = append(line, piece...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// skip skips the rest of a line that is too long.
func (r *Reader) skip() error {
	for n := 0; r.rest; {
		piece, err := r.lines.ReadSlice('\n')
		switch n += len(piece); {
		case err == nil:
			r.rest = false
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		case n > maxSkipped:
			return &BadLine{Err: fmt.Errorf("a line has more than %d bytes", maxSkipped)}
		}
	}
	return nil
}

// firstID returns the id in a line of which only the beginning is there, if it comes before what is cut off: so a line that is too long is the failure of its
// task, and not of all.
func firstID(begin []byte) string {
	d := json.NewDecoder(bytes.NewReader(begin))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		var value any
		if d.Decode(&value) != nil {
			return ""
		}
		if key == "id" {
			id, _ := value.(string)
			return id
		}
	}
	return ""
}
