package repl

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

// plainEditor is the editor for a terminal without cursor movements, which edits lines itself.
type plainEditor struct {
	keys *keyboard
	in   *bufio.Reader
	out  io.Writer
	take func() string

	mu     sync.Mutex
	prompt string // "" while no line is read
}

func newPlainEditor(in io.Reader, out io.Writer, take func() string) *plainEditor {
	e := &plainEditor{keys: newKeyboard(in, func() bool { return false }), out: out, take: take}
	e.in = bufio.NewReader(e.keys)
	return e
}

func (e *plainEditor) readLine(prompt string) (string, error) {
	e.mu.Lock()
	e.prompt = prompt
	_, _ = io.WriteString(e.out, e.take()+prompt)
	e.mu.Unlock()
	line, err := e.read()
	e.mu.Lock()
	e.prompt = ""
	e.mu.Unlock()
	if errors.Is(err, io.EOF) {
		_, _ = io.WriteString(e.out, "\n")
		if line != "" {
			err = nil // the last line, without a line end
		}
	}
	return strings.TrimRight(line, "\r\n"), err
}

// read returns a line, cut to one byte more than a message may have.
func (e *plainEditor) read() (string, error) {
	var line []byte
	for {
		piece, err := e.in.ReadSlice('\n')
		line = append(line, piece[:min(len(piece), transport.MaxText+1-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(line), err
		}
	}
}

// wake shows the notices at once: the typed text is on the screen and cannot be moved.
func (e *plainEditor) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prompt == "" {
		return
	}
	text := e.take()
	if text != "" {
		text = "\n" + text
	}
	_, _ = io.WriteString(e.out, text+e.prompt)
}

// listen does nothing: the terminal keeps the keys.
func (e *plainEditor) restore() error { return nil }

func (e *plainEditor) listen(func(byte, string) bool) (stop func()) { return func() {} }

func (e *plainEditor) begin(string) bool { return false }

func (e *plainEditor) vi(on bool) bool { return !on }

func (e *plainEditor) remember(string) {}

func (e *plainEditor) Close() error { return e.keys.Close() }
