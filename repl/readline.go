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

// lineEditor is the editor for a terminal with cursor movements.
//
// The library is not safe for concurrent use at every moment: it redraws the prompt when nobody reads, and changes its buffer without a lock when a
// line is submitted. So only the library's own goroutine draws on the screen: notices reach it as a key, see keyboard.wake, and are shown in the
// input filter, which runs only while a line is being read.
type lineEditor struct {
	rl   *readline.Instance
	fd   int
	out  *valve
	keys *keyboard
	take func() string // returns the notices to show

	prompt int // width in columns

	mu     sync.Mutex
	cooked *readline.State // of the terminal, while it is raw

	length atomic.Int64 // of the line, in runes
	behind atomic.Int64 // those at the cursor and behind it, as they were drawn last
}

// completer returns the word that ends at the cursor and its completions. about says what one of them is; it may be nil.
type completer func(before string) (word string, options []string, about func(option string) string)

// maxRecall is the size in bytes of the longest text that the arrow keys recall; longer ones cannot be edited on one line.
const maxRecall = 4 << 10

func newLineEditor(in io.Reader, s screen, history []string, take func() string, complete completer) (*lineEditor, error) {
	e := &lineEditor{out: &valve{w: s.w}, take: take}
	e.keys = newKeyboard(in, func() bool { return e.length.Load() == 0 })
	fd, _ := fileno(in)
	e.fd = fd
	var resized func()
	width := func() int {
		w, _ := s.size()
		return w
	}
	last := width()
	drop := false // the next rune
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
		FuncMakeRaw:         e.makeRaw,
		FuncExitRaw:         func() error { return nil }, // see restore
		FuncFilterInputRune: func(r rune) (rune, bool) {
			if w := width(); w != last && resized != nil {
				last = w
				resized()
			}
			if on := e.keys.isVi.Load(); on != e.rl.IsVimMode() {
				e.rl.SetVimMode(on) // in this goroutine, where the library reads it
			}
			if r == escapeMark {
				return readline.CharEsc, true
			}
			if r == wakeMark {
				_, _ = e.rl.Write([]byte(e.take()))
				return readline.CharBell, true // a rune that does nothing
			}
			// The library panics where these keys have nothing to do, or at the next key.
			behind := e.behind.Load()
			switch {
			case drop:
				drop = false
				return readline.CharBell, true
			case r == readline.CharTranspose && e.length.Load() < 2, r == wordEndMark && behind < 2:
				return readline.CharBell, true
			case r == replaceMark && behind < 1:
				drop = true
				return readline.CharBell, true
			case r == wordEndMark:
				return 'e', true
			case r == replaceMark:
				return 'r', true
			}
			return r, true
		},
	}
	cfg.SetListener(func(line []rune, pos int, key rune) ([]rune, int, bool) {
		if key == burstMark {
			line, pos = e.keys.spread(line, pos)
		}
		e.length.Store(int64(len(line)))
		if now := e.rl.Operation.IsSearchMode(); e.keys.searches.Swap(now) && !now {
			e.keys.wake() // for notices that arrived in the meantime
		}
		return line, pos, key == burstMark
	})
	var err error
	if e.rl, err = readline.NewEx(cfg); err != nil {
		return nil, err
	}
	plain := *e.rl.Terminal.GetConfig() // in raw mode in vi mode, too
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
	if !e.keys.searches.Load() { // otherwise at the next line
		e.keys.wake()
	}
}

// makeRaw makes each key readable as it is typed.
func (e *lineEditor) makeRaw() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cooked == nil {
		e.cooked, err = readline.MakeRaw(e.fd)
	}
	return err
}

// restore undoes makeRaw, for another program or at the end. Between two lines the terminal stays raw: a Ctrl-D that is typed while it is not would be lost.
func (e *lineEditor) restore() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	cooked := e.cooked
	if e.cooked = nil; cooked == nil {
		return nil
	}
	return readline.Restore(e.fd, cooked)
}

func (e *lineEditor) listen(on func(key byte, typed string) (taken bool)) (stop func()) {
	if err := e.makeRaw(); err != nil {
		return func() {} // the terminal is gone
	}
	_, _ = io.WriteString(e.out, pasteOn)
	ended := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() { e.keys.listen(ended, on) })
	return func() {
		close(ended)
		listening.Wait()
		_, _ = io.WriteString(e.out, pasteOff)
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
		_ = e.rl.SaveHistory(mark.Replace(text)) // without a file it returns no error
	}
}

// Close ends reading and restores the terminal.
func (e *lineEditor) Close() error {
	_ = e.keys.Close() // first: the library waits for its reader
	err := errors.Join(e.rl.Close(), e.restore())
	e.out.shut.Store(true)
	return err
}

// valve blocks writes to the terminal after the editor was closed: the library clears its line even after that.
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

// paintedMark ends the output of a painter. After it the library moves the cursor back by one column for each rune, which is wrong for wide and
// zero-width runes. So the library's output after the mark is dropped, and the painter moves the cursor itself.
const paintedMark = '\ufdd3' // a noncharacter, as the other marks

// painter shows newline and tab marks as one column each, and moves the cursor to its place.
type painter struct {
	e     *lineEditor
	width func() int
}

func (p painter) Paint(line []rune, pos int) []rune {
	p.e.length.Store(int64(len(line))) // no listener hears of the commands of vi mode
	p.e.behind.Store(int64(len(line) - pos))
	shown := make([]rune, len(line), len(line)+16)
	for i, r := range line {
		switch r {
		case newlineMark:
			r = '↵'
		case tabMark, paintedMark, burstMark:
			r = ' '
		}
		shown[i] = r
	}
	back := toCursor(string(shown[:pos]), string(shown), p.e.prompt, p.width())
	return append(append(shown, []rune(back)...), paintedMark)
}

// toCursor returns the sequence that moves the cursor from the end of text, which begins in column col, back to the end of its prefix before.
func toCursor(before, text string, col, width int) string {
	row, at := place(before, col, width)
	lastRow, last := place(text, col, width)
	move := ""
	if last == 0 && lastRow > 0 { // most terminals wrap only with the next character
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

// place returns the position of the cursor, row and column, after text that begins in column col.
func place(text string, col, width int) (row, at int) {
	at = col
	for state := -1; text != ""; {
		var w int
		_, text, w, state = uniseg.FirstGraphemeClusterInString(text, state)
		if at+w > width { // a wide character does not wrap in its middle
			row, at = row+1, 0
		}
		at += w
	}
	if at >= width {
		row, at = row+1, 0
	}
	return row, at
}

// completion adapts a completer to the library. It inserts the common prefix of the options, and lists the options above the line instead of using
// the library's menu.
type completion struct {
	e        *lineEditor
	complete completer
}

func (c completion) Do(line []rune, pos int) ([][]rune, int) {
	word, options, about := c.complete(string(line[:pos]))
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
		if about != nil {
			_, _ = c.e.rl.Write([]byte(described(options, about, w)))
			return nil, 0
		}
		_, _ = c.e.rl.Write([]byte(columns(options, w)))
		return nil, 0
	}
	return [][]rune{rest}, n
}
