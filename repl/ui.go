package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// editor reads lines from the user.
type editor interface {
	// readLine shows the prompt and waits for a line. Errors: errInterrupt, errEdit, io.EOF.
	readLine(prompt string) (string, error)
	// wake makes the editor, as soon as it is reading a line, take the notices from its ui and show them above that line. It does not block.
	wake()
	// listen reads keys while no line is read, until the caller calls stop; the next line begins with them. It calls on, from another goroutine, with
	// each Ctrl-C and Ctrl-D and with each line when it is complete, which it removes if they are taken, and with the text typed so far.
	listen(on func(key byte, typed string) (taken bool)) (stop func())
	// restore makes the terminal as it was for another program, until the next line is read.
	restore() error
	// begin makes the next line begin with text, and reports whether the editor can do that.
	begin(text string) bool
	// vi switches vi mode on or off, and reports whether the editor can do that.
	vi(on bool) bool
	// remember adds text to what the arrow keys recall.
	remember(text string)
	// Close unblocks readLine and restores the terminal.
	Close() error
}

// errInterrupt is returned when Ctrl-C was typed instead of a line.
var errInterrupt = errors.New("interrupt")

// errEdit is returned with a line that the user wants to change in an editor.
var errEdit = errors.New("edit")

// ui owns the terminal: nothing else writes to it. It has two states. While it is prompting, the editor has the last line of the screen, and only
// whole lines appear above it. Otherwise it is busy: text is streamed, and while the cursor is at the beginning of a line, the live lines below the
// text are repainted.
//
// Notices come from other goroutines at any time. Each is shown as a whole, as soon as it does not disturb other output.
type ui struct {
	screen
	interrupts <-chan os.Signal

	mu        sync.Mutex // also held while writing, which makes it the one place that orders output
	editor    editor
	prompting bool
	inLine    bool     // busy: the cursor is behind text, not at the beginning of a line
	streaming bool     // busy: between the first piece of a stream and its end; notices wait
	live      []string // busy: lines on the screen above the cursor that will be replaced
	waiting   []notice // not shown yet
	dropped   int      // number of notices above maxWaiting

	pending chan typed // the result of a readLine that is still running; used only by ReadLine
}

// notice formats a notice for a screen of this width, without the last line end.
type notice func(width int, s style) string

type typed struct {
	line string
	err  error
}

// maxWaiting bounds the notices that wait for the end of a long answer.
const maxWaiting = 200

// ReadLine lets the user type a line. Errors: errInterrupt, errEdit, io.EOF, ctx's.
func (u *ui) ReadLine(ctx context.Context, prompt string) (string, error) {
	u.mu.Lock()
	u.write(u.erase())
	u.streaming = false
	u.settle("")
	u.prompting = true
	u.mu.Unlock()

	if u.pending != nil {
		u.editor.wake() // to show its prompt again
	} else {
		result := make(chan typed, 1)
		u.pending = result
		go func() { // ends with the line, or when the editor is closed
			line, err := u.editor.readLine(prompt)
			result <- typed{line, err}
		}()
	}
	var r typed
	select {
	case r = <-u.pending:
		u.pending = nil
	case <-u.interrupts: // sent by another process, or typed just before the editor took the keyboard
		r.err = errInterrupt
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prompting, u.inLine = false, u.pending != nil
	u.settle("")
	return r.line, r.err
}

// Close restores the terminal. Nothing may be written after it.
func (u *ui) Close() error {
	err := u.editor.Close()
	if u.pending != nil {
		<-u.pending
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.settle("")
	return err
}

// Notice shows a text in a look, wrapped between words, as soon as it does not disturb other output. It is safe for concurrent use and does not wait.
func (u *ui) Notice(text, look string) {
	u.notify(func(width int, s style) string { return s.lines(text, look, width) })
}

// notify is Notice for other layouts.
func (u *ui) notify(n notice) {
	u.mu.Lock()
	if len(u.waiting) >= maxWaiting {
		u.dropped++
	} else {
		u.waiting = append(u.waiting, n)
	}
	prompting := u.prompting
	u.settle("")
	u.mu.Unlock()
	if prompting {
		u.editor.wake()
	}
}

// take returns the formatted notices that wait, for the editor to show.
func (u *ui) take() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.takeLocked()
}

func (u *ui) takeLocked() string {
	if len(u.waiting) == 0 {
		return ""
	}
	width, _ := u.size()
	text := ""
	for _, n := range u.waiting {
		text += n(width, u.style) + "\n"
	}
	if u.dropped > 0 {
		text += u.style.dim(fmt.Sprintf("(%d more lines are not shown)", u.dropped)) + "\n"
	}
	u.waiting, u.dropped = nil, 0
	return text
}

// Print shows text on lines of its own, below the previous output.
func (u *ui) Print(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	u.streaming = false
	u.settle(text)
}

// Say shows a text in a look, wrapped between words.
func (u *ui) Say(text, look string) {
	width, _ := u.size()
	u.Print(u.style.lines(text, look, width))
}

// setStyle changes the style.
func (u *ui) setStyle(s style) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.style = s
}

// Away leaves the screen to do until it returns. Notices wait.
func (u *ui) Away(do func()) {
	u.mu.Lock()
	u.write(u.erase())
	u.streaming = true
	u.mu.Unlock()
	_ = u.editor.restore() // or the terminal is gone
	do()
	u.EndStream()
}

// Stream appends a piece of text. Notices wait until EndStream.
func (u *ui) Stream(text string) {
	if text == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	begin := u.erase() + u.clear()
	u.streaming = true
	u.inLine = !strings.HasSuffix(text, "\n")
	u.write(begin + text)
}

// EndStream ends the line that Stream left open.
func (u *ui) EndStream() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.streaming = false
	u.settle("")
}

// Live replaces the live lines; with none it removes them. They are not shown while streamed text ends within a line, or on a screen that cannot be
// repainted. Each must fit the screen's width.
func (u *ui) Live(lines []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(lines) > 0 || len(u.live) > 0 {
		u.repaintLocked("", lines)
	}
}

// Flow shows complete lines of a text that is being written, and replaces the live lines below them. Notices wait until EndStream.
func (u *ui) Flow(text string, live []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.streaming = true
	u.repaintLocked(text, live)
}

// repaintLocked writes text and live over the old live lines, line by line to avoid flicker.
func (u *ui) repaintLocked(text string, live []string) {
	if u.prompting || u.inLine || !u.repaint {
		return
	}
	var b strings.Builder
	if n := u.liveRows(); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", n)
	}
	b.WriteString("\r")
	if text != "" {
		b.WriteString("\x1b[J" + text)
	}
	for _, line := range live {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	u.live = append(u.live[:0], live...)
	u.write(b.String())
}

// liveRows returns how many rows of the screen the live lines occupy: more than one each if the window has become narrower.
func (u *ui) liveRows() int {
	width, _ := u.size()
	rows := 0
	for _, line := range u.live {
		rows += max((table.Width(Sanitize(line))+width-1)/width, 1)
	}
	return rows
}

// settle shows text at the beginning of a line, followed by the notices that wait; the live lines stay below. mu is held.
func (u *ui) settle(text string) {
	if u.prompting {
		return
	}
	begin := ""
	if u.inLine && !u.streaming {
		begin, u.inLine = "\n", false
	}
	if !u.inLine && !u.streaming {
		text += u.takeLocked()
	}
	if begin == "" && text != "" {
		begin = u.clear()
	}
	if begin+text == "" {
		return
	}
	live := strings.Join(u.live, "\x1b[K\n")
	if live != "" {
		live += "\x1b[K\n"
	}
	kept := u.live
	out := u.erase() + begin + text + live
	u.live = kept
	u.write(out)
}

// erase returns the sequence that removes the live lines from the screen, and forgets them. mu is held.
func (u *ui) erase() string {
	if len(u.live) == 0 {
		return ""
	}
	n := u.liveRows()
	u.live = nil
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", n)
}

// clear returns the sequence that removes keys which the terminal echoed at the beginning of a line; the next prompt still gets them.
func (u *ui) clear() string {
	if u.inLine || !u.repaint {
		return ""
	}
	return "\r\x1b[K"
}

// write writes s; mu is held. It ignores errors: reading reports a terminal that is gone.
func (u *ui) write(s string) { _, _ = io.WriteString(u.w, s) }
