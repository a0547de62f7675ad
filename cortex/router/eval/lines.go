package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// Bounds of a file and of a line, in bytes. Files are read into memory.
const (
	maxFile = 256 << 20
	maxLine = 1 << 20
)

// place is a position in a file.
type place struct {
	file string
	line int
}

func (p place) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", p.file, p.line, fmt.Errorf(format, args...))
}

// readLines passes each JSON object of a file to f. It skips blank lines; a file without an object is an error.
func readLines[T any](ctx context.Context, file string, f func(place, *T) error) error {
	r, err := document.Open(ctx, file, maxFile)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // it was read only
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	at, objects := place{file: file}, 0
	for s.Scan() {
		at.line++
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		v := new(T)
		if err := json.Unmarshal(s.Bytes(), v); err != nil {
			return at.errorf("not the JSON that is expected: %w", err)
		}
		if err := f(at, v); err != nil {
			return err
		}
		objects++
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		at.line++
		return at.errorf("the line is longer than %d bytes", maxLine)
	} else if err != nil {
		return err // it names the file already
	}
	if objects == 0 {
		return fmt.Errorf("%s: the file is empty: one JSON object is expected on each line", file)
	}
	return nil
}

// short quotes an external text for an error, and truncates it.
func short(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q…", s[:80])
	}
	return fmt.Sprintf("%q", s)
}
