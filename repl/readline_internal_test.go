package repl

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestCtrlDBetweenTurnAndLine types Ctrl-D after a turn has ended and before the next line is read. A terminal that is not raw at that moment makes
// another key of it.
func TestCtrlDBetweenTurnAndLine(t *testing.T) {
	t.Parallel()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, keys) }() // neither is closed: the library still uses them after Close
	e, err := newLineEditor(tty, screen{w: tty}, nil, func() string { return "" }, func(string) (string, []string, func(string) string) { return "", nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	taken := make(chan byte)
	stop := e.listen(func(key byte, _ string) bool {
		if key == 0 {
			return false
		}
		taken <- key
		return true
	})
	if _, err := keys.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if key := <-taken; key != ctrlC {
		t.Errorf("the key %q, want Ctrl-C", key)
	}
	stop()
	if _, err := keys.WriteString("\x04"); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := e.readLine("> ")
		read <- err
	}()
	select {
	case err := <-read:
		if !errors.Is(err, io.EOF) {
			t.Errorf("the line ended with %v, want io.EOF", err)
		}
	case <-time.After(time.Minute):
		t.Error("Ctrl-D was lost")
	}
}

// TestCtrlDBetweenLines types Ctrl-D after a line was read, and before the next one is: as while a command says what it has to.
func TestCtrlDBetweenLines(t *testing.T) {
	t.Parallel()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, keys) }() // neither is closed: the library still uses them after Close
	e, err := newLineEditor(tty, screen{w: tty}, nil, func() string { return "" }, func(string) (string, []string, func(string) string) { return "", nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	read := make(chan error, 1)
	for _, typed := range []string{"a\r", "\x04"} {
		if _, err := keys.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := e.readLine("> ")
			read <- err
		}()
		select {
		case err := <-read:
			if typed == "\x04" && !errors.Is(err, io.EOF) || typed != "\x04" && err != nil {
				t.Errorf("the line %q ended with %v", typed, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q was lost", typed)
		}
	}
}

// TestLongPasteInTurn pastes more than is kept while a turn lasts: the keys behind the paste are heard, and the next line ends.
func TestLongPasteInTurn(t *testing.T) {
	t.Parallel()
	k := newKeyboard(strings.NewReader(""), func() bool { return true })
	defer k.Close()
	heard := 0
	for _, b := range []byte(pasteBegin + strings.Repeat("x", 2*maxEarly) + "\x03" + pasteEnd + "\x04") {
		k.hear(b, func(key byte, _ string) bool {
			heard++
			return key == ctrlD
		})
	}
	if heard != 1 {
		t.Errorf("%d keys were heard, want Ctrl-D behind the paste only", heard)
	}
	if n := strings.Count(string(k.early), pasteEnd); n != 1 {
		t.Errorf("the paste has %d ends", n)
	}
}
