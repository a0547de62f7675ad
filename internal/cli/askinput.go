package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/size"
	"github.com/cortex-orchestrator/cortex/transport"
)

// brought is the content of standard input that accompanies a question: text, or the path of a file with the content, or neither.
type brought struct {
	text, file string
}

// stdinWaits is how long standard input may be silent before the user is told that Cortex is waiting for it.
const stdinWaits = 5 * time.Second

// bring reads standard input, unless it is a terminal or a device. Content that is not text, or does not fit into one message with the question, is
// written to a file in dir; content above limit bytes is an error.
func (e *env) bring(ctx context.Context, question string, limit int64, dir func() (string, error)) (brought, error) {
	if !e.stdinBrings() {
		return brought{}, nil
	}
	room := transport.MaxText - len(question) - len(between)
	head, err := e.readStdin(ctx, int64(room)+1)
	if err != nil {
		return brought{}, err
	}
	isText := utf8.Valid(head) && !bytes.ContainsRune(head, 0)
	if isText && len(head) <= room {
		text := strings.TrimRight(string(head), "\r\n")
		if strings.TrimSpace(text) == "" {
			text = ""
		}
		return brought{text: text}, nil
	}
	folder, err := dir()
	if err != nil {
		return brought{}, err
	}
	name := "stdin"
	if utf8.Valid(head[:len(head)-partial(head)]) {
		name = "stdin.txt"
	}
	path := filepath.Join(folder, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return brought{}, err
	}
	defer f.Close()
	_, err = f.Write(head)
	for n := int64(len(head)); err == nil && n <= limit; {
		var more []byte
		if more, err = e.readStdin(ctx, transport.FileChunk); len(more) == 0 {
			break
		}
		if err == nil {
			_, err = f.Write(more)
		}
		if n += int64(len(more)); n > limit {
			return brought{}, fmt.Errorf("standard input: %w: at most %s are brought along (--max-file)", transport.ErrTooLarge, size.Text(limit))
		}
	}
	return brought{file: path}, errors.Join(err, f.Close())
}

// between separates a question from the text of standard input.
const between = "\n\n"

// partial returns the number of bytes of an incomplete UTF-8 sequence at the end of b.
func partial(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			break
		}
	}
	return 0
}

// stdinBrings reports whether standard input may have content for this question. Devices such as /dev/null do not.
func (e *env) stdinBrings() bool {
	f, ok := e.stdin.(*os.File)
	if !ok {
		return e.stdin != nil
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == 0
}

// readStdin reads standard input to its end or to limit bytes, until ctx ends. It prints a notice when nothing arrives for stdinWaits: the user may
// not know that standard input is open.
func (e *env) readStdin(ctx context.Context, limit int64) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the process when nothing arrives
		b, err := io.ReadAll(io.LimitReader(e.stdin, limit))
		done <- result{b, err}
	}()
	slow := time.NewTimer(stdinWaits)
	defer slow.Stop()
	for {
		select {
		case got := <-done:
			if got.err != nil {
				return nil, fmt.Errorf("standard input: %w", got.err)
			}
			return got.b, nil
		case <-slow.C:
			if screen.IsTerminal(e.stdin) {
				continue
			}
			e.say("cortex: waiting for the end of standard input, which is brought along; to bring nothing, give </dev/null")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
