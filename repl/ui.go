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

// editor reads lines that a person types.
type editor interface {
	// readLine shows the prompt and blocks for a line. Errors: errInterrupt, errEdit, io.EOF.
	readLine(prompt string) (string, error)
	// wake makes the editor, as soon as it is reading a line, take the notices from its ui and show them above that line.
	// It does not block.
	wake()
	// listen reads keys while no line is read, until the function that it returns is called; the next line begins with them. It calls on,
	// from another goroutine, with each Ctrl-C and Ctrl-D, which are taken out, and with what was typed so far.
	listen(on func(key byte, typed string)) (stop func())
	// begin has the next line begin with text, and reports whether that can be done.
	begin(text string) bool
	// vi has the keys be those of vi, or no longer, and reports whether that can be done.
	vi(on bool) bool
	// remember adds text to what the arrow keys recall.
	remember(text string)
	// Close unblocks readLine and gives the terminal back as it was.
	Close() error
}

// errInterrupt is returned when Ctrl-C was typed instead of a line.
var errInterrupt = errors.New("interrupt")

// errEdit is returned with a line that is not said but to be changed in an editor.
var errEdit = errors.New("edit")

// ui owns the terminal: nothing else writes to it. It is in one of two states. While it is prompting, the editor has the
// last line of the screen and only whole lines appear above it. Otherwise it is busy: text streams, and below it, while
// the cursor is at the beginning of a line, the live lines are repainted.
//
// Notices come from other goroutines at any time. Each is shown whole, as soon as it disturbs nothing.
type ui struct {
	screen
	interrupts <-chan os.Signal

	mu        sync.Mutex // also held while writing: this is the one place that orders output
	editor    editor
	prompting bool
	inLine    bool     // busy: the cursor is behind text, not at the beginning of a line
	streaming bool     // busy: between the first piece of a stream and its end; notices wait
	live      []string // busy: lines on the screen above the cursor that will be replaced
	waiting   []notice // not shown yet
	dropped   int      // notices that were too many

	pending chan typed // of a readLine that was left running; used by ReadLine alone
}

// notice makes a notice for a screen of some width: one line or several, without the end of the last one.
type notice func(width int, s style) string

type typed struct {
	line string
	err  error
}

// maxWaiting bounds the notices that wait for the end of a long answer.
const maxWaiting = 200

// ReadLine lets the user type a line. Errors: errInterrupt, io.EOF, ctx's.
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
	case <-u.interrupts: // sent from elsewhere, or typed just before the editor took the keyboard
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

// Close gives the terminal back. Nothing may be written after it.
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

// Notice shows a text in a look, broken between its words, as soon as that disturbs nothing. Safe from any goroutine; it does not wait.
func (u *ui) Notice(text, look string) {
	u.notify(func(width int, s style) string { return s.lines(text, look, width) })
}

// notify is Notice for what is laid out otherwise.
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

// take returns the notices that wait, as text, for the editor to show.
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

// Print shows text on lines of its own, below what is there.
func (u *ui) Print(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	u.streaming = false
	u.settle(text)
}

// Say shows a text in a look, broken between its words.
func (u *ui) Say(text, look string) {
	width, _ := u.size()
	u.Print(u.style.lines(text, look, width))
}

// dress shows everything in a style from now on.
func (u *ui) dress(s style) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.style = s
}

// Away leaves the screen to something else until do returns. Notices wait.
func (u *ui) Away(do func()) {
	u.mu.Lock()
	u.write(u.erase())
	u.streaming = true
	u.mu.Unlock()
	do()
	u.EndStream()
}

// Stream shows a piece of text behind the last one. Notices wait until EndStream.
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

// Live replaces the live lines; none removes them. They are not shown behind a streamed text that is within a line, nor
// on a screen that cannot repaint. Each must fit the screen's width.
func (u *ui) Live(lines []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(lines) > 0 || len(u.live) > 0 {
		u.repaintLocked("", lines)
	}
}

// Flow shows whole lines of a text that is being written, and replaces the live lines below them. Notices wait until EndStream.
func (u *ui) Flow(text string, live []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.streaming = true
	u.repaintLocked(text, live)
}

// repaintLocked writes text and live over the live lines, line by line, so that nothing flickers.
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

// liveRows returns how many rows of the screen the live lines take: they were broken if the window has become narrower.
func (u *ui) liveRows() int {
	width, _ := u.size()
	rows := 0
	for _, line := range u.live {
		rows += max((table.Width(Sanitize(line))+width-1)/width, 1)
	}
	return rows
}

// settle shows text, at the beginning of a line, and the notices that wait; the live lines stay below. Called with mu held
// while not prompting.
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

// erase returns what removes the live lines from the screen, and forgets them. Called with mu held.
func (u *ui) erase() string {
	if len(u.live) == 0 {
		return ""
	}
	n := u.liveRows()
	u.live = nil
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", n)
}

// clear returns what removes keys that the terminal echoed at the beginning of a line; they are not lost to the next prompt.
func (u *ui) clear() string {
	if u.inLine || !u.repaint {
		return ""
	}
	return "\r\x1b[K"
}

// write is called with mu held. A terminal that has gone away is noticed by reading from it.
func (u *ui) write(s string) { _, _ = io.WriteString(u.w, s) }
