package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/chzyer/readline"
	"github.com/rivo/uniseg"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// lineEditor is the editor on a terminal that understands cursor movements.
//
// The library is not safe for use from several goroutines at every moment (it redraws the prompt when nobody reads, and
// changes its buffer without a lock when a line is submitted). So all of its screen is drawn by its own goroutine: notices
// reach it as a key, see keyboard.wake, and are shown in the input filter, where a line is being read for certain.
type lineEditor struct {
	rl   *readline.Instance
	fd   int
	out  *valve
	keys *keyboard
	take func() string // notices to show

	prompt int // columns

	length atomic.Int64 // of the line, in runes
}

// completer returns the word that ends at the cursor and what it could become.
type completer func(before string) (word string, options []string)

// maxRecall is the size of a text that the arrow keys recall; longer ones cannot be edited on one line.
const maxRecall = 4 << 10

func newLineEditor(in io.Reader, s screen, history []string, take func() string, complete completer) (*lineEditor, error) {
	e := &lineEditor{out: &valve{w: s.w}, take: take}
	e.keys = newKeyboard(in, func() bool { return e.length.Load() == 0 })
	fd, _ := fileno(in)
	e.fd = fd
	var cooked *readline.State
	var resized func()
	width := func() int {
		w, _ := s.size()
		return w
	}
	last := width()
	cfg := &readline.Config{
		Stdin: e.keys, Stdout: e.out, Stderr: e.out,
		HistoryLimit: maxHistory, DisableAutoSaveHistory: true,
		InterruptPrompt: "^C", EOFPrompt: "\n",
		AutoComplete:        completion{e, complete},
		Painter:             painter{e, width},
		FuncIsTerminal:      func() bool { return true },
		FuncGetWidth:        width,
		FuncOnWidthChanged:  func(f func()) { resized = f },
		ForceUseInteractive: true,
		FuncMakeRaw: func() (err error) {
			cooked, err = readline.MakeRaw(fd)
			return err
		},
		FuncExitRaw: func() error {
			if cooked == nil {
				return nil
			}
			return readline.Restore(fd, cooked)
		},
		FuncFilterInputRune: func(r rune) (rune, bool) {
			if w := width(); w != last && resized != nil {
				last = w
				resized()
			}
			if on := e.keys.isVi.Load(); on != e.rl.IsVimMode() {
				e.rl.SetVimMode(on) // here, where the library reads it
			}
			if r == escapeMark {
				return readline.CharEsc, true
			}
			if r == wakeMark {
				_, _ = e.rl.Write([]byte(e.take()))
				return readline.CharBell, true // does nothing
			}
			return r, true
		},
	}
	cfg.SetListener(func(line []rune, _ int, _ rune) ([]rune, int, bool) {
		e.length.Store(int64(len(line)))
		if now := e.rl.Operation.IsSearchMode(); e.keys.searches.Swap(now) && !now {
			e.keys.wake() // for what came meanwhile
		}
		return nil, 0, false
	})
	var err error
	if e.rl, err = readline.NewEx(cfg); err != nil {
		return nil, err
	}
	plain := *e.rl.Terminal.GetConfig() // the terminal reads Escape as it is typed, in vi mode too
	if err := e.rl.Terminal.SetConfig(&plain); err != nil {
		return nil, err
	}
	for _, text := range history {
		e.remember(text)
	}
	return e, nil
}

func (e *lineEditor) readLine(prompt string) (string, error) {
	e.rl.SetPrompt(prompt)
	e.prompt = table.Width(prompt)
	_, _ = io.WriteString(e.out, pasteOn)
	line, err := e.rl.Readline()
	_, _ = io.WriteString(e.out, pasteOff)
	line = e.keys.expand(line)
	if edit := e.keys.edit.Swap(false); edit && err == nil {
		err = errEdit
	}
	if errors.Is(err, readline.ErrInterrupt) {
		err = errInterrupt
	}
	return line, err
}

func (e *lineEditor) wake() {
	if !e.keys.searches.Load() { // else at the next line
		e.keys.wake()
	}
}

func (e *lineEditor) listen(on func(key byte, typed string)) (stop func()) {
	cooked, err := readline.MakeRaw(e.fd)
	if err != nil {
		return func() {} // it has gone away
	}
	_, _ = io.WriteString(e.out, pasteOn)
	ended := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() { e.keys.listen(ended, on) })
	return func() {
		close(ended)
		listening.Wait()
		_, _ = io.WriteString(e.out, pasteOff)
		_ = readline.Restore(e.fd, cooked)
	}
}

func (e *lineEditor) begin(text string) bool {
	e.keys.put(text)
	return true
}

func (e *lineEditor) vi(on bool) bool {
	e.keys.isVi.Store(on)
	return true
}

func (e *lineEditor) remember(text string) {
	if len(text) <= maxRecall {
		_ = e.rl.SaveHistory(mark.Replace(text)) // no file, no error
	}
}

// Close ends reading and gives the terminal back.
func (e *lineEditor) Close() error {
	_ = e.keys.Close() // first: the library waits for its reader
	err := e.rl.Close()
	e.out.shut.Store(true)
	return err
}

// valve is the way to the terminal while the editor is open. The library still cleans its line some time after it was closed.
type valve struct {
	w    io.Writer
	shut atomic.Bool
}

func (v *valve) Write(b []byte) (int, error) {
	if v.shut.Load() {
		return len(b), nil
	}
	shown := b
	if i := bytes.IndexRune(b, paintedMark); i >= 0 {
		shown = b[:i]
	}
	_, err := v.w.Write(shown)
	return len(b), err
}

// paintedMark ends what a painter shows. The library moves the cursor back by one column for each rune behind it, also where that is wide
// or has none: what it writes behind the mark is left out, and the painter moves the cursor itself.
const paintedMark = '\ufdd3' // no character, as the other marks

// painter shows the marks of newlines and tabs, one column each, and moves the cursor to its place.
type painter struct {
	e     *lineEditor
	width func() int
}

func (p painter) Paint(line []rune, pos int) []rune {
	shown := make([]rune, len(line), len(line)+16)
	for i, r := range line {
		switch r {
		case newlineMark:
			r = '↵'
		case tabMark, paintedMark:
			r = ' '
		}
		shown[i] = r
	}
	back := toCursor(string(shown[:pos]), string(shown), p.e.prompt, p.width())
	return append(append(shown, []rune(back)...), paintedMark)
}

// toCursor returns what moves the cursor from the end of a line of text, which begins in column col, to the end of before, with which the
// text begins.
func toCursor(before, text string, col, width int) string {
	row, at := place(before, col, width)
	lastRow, last := place(text, col, width)
	move := ""
	if last == 0 && lastRow > 0 { // most terminals go to the next line with the next character only
		move = " \b"
	}
	if lastRow == row && last == at {
		return move
	}
	if lastRow > row {
		move += fmt.Sprintf("\x1b[%dA", lastRow-row)
	}
	move += "\r"
	if at > 0 {
		move += fmt.Sprintf("\x1b[%dC", at)
	}
	return move
}

// place returns where the cursor is behind text that begins in column col, in rows and columns.
func place(text string, col, width int) (row, at int) {
	at = col
	for state := -1; text != ""; {
		var w int
		_, text, w, state = uniseg.FirstGraphemeClusterInString(text, state)
		if at+w > width { // a wide character is not broken
			row, at = row+1, 0
		}
		at += w
	}
	if at >= width {
		row, at = row+1, 0
	}
	return row, at
}

// completion fits a completer to the library. It completes as far as there is no choice, and lists the choices above the
// line, instead of the library's menu.
type completion struct {
	e        *lineEditor
	complete completer
}

func (c completion) Do(line []rune, pos int) ([][]rune, int) {
	word, options := c.complete(string(line[:pos]))
	if len(options) == 0 {
		return nil, 0
	}
	n := len([]rune(word))
	rest := []rune(commonPrefix(options))[n:]
	switch {
	case len(options) == 1 && !os.IsPathSeparator(options[0][len(options[0])-1]):
		rest = append(rest, ' ')
	case len(rest) == 0:
		w, _ := screen{w: c.e.out.w}.size()
		_, _ = c.e.rl.Write([]byte(columns(options, w)))
		return nil, 0
	}
	return [][]rune{rest}, n
}
