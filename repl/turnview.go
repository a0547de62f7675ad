package repl

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/transport"
)

// turnView shows one turn on the terminal. Its methods are safe for concurrent use: events and the clock come from different goroutines.
type turnView struct {
	ui    *ui
	start time.Time
	now   func() time.Time

	mu      sync.Mutex
	board   board
	attempt string
	written strings.Builder // the text streamed in this attempt, sanitized
	clean   Sanitizer
	said    *agentText    // nil: none
	heard   string        // the whole of the last text that an agent streamed
	out     *writing      // the text being written, of the answer or of an agent; nil: none
	pause   time.Duration // until out is laid out again
	drawn   time.Time
	typed   string    // typed during the turn, for the next line
	held    []outcome // the last lines of delegations that wait for the answer
	done    bool
}

// maxHeld bounds the lines that wait for the answer.
const maxHeld = 4

func newTurnView(u *ui, now func() time.Time) *turnView {
	return &turnView{ui: u, start: now(), now: now, board: board{now: now}}
}

// show shows an event of the turn.
func (v *turnView) show(e *transport.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	width, _ := v.ui.size()
	switch p := e.Payload.(type) {
	case *transport.Delta:
		v.release("")
		v.silence("")
		v.delta(p)
	case *a2a.Task:
		v.release("")
		// Text before a delegation was not the answer, and stays as a remark.
		v.restart()
		if d := v.board.started(p); d != nil && !v.ui.repaint {
			v.ui.Print(d.line(v.now(), width, v.ui.style))
		}
	case *a2a.TaskStatusUpdateEvent:
		if e.From != transport.Cortex {
			v.progress(e, width)
			break
		}
		v.silence(p.TaskID)
		v.settle(v.board.settled(p, width, v.ui.style))
	case *a2a.TaskArtifactUpdateEvent:
		if isText(p) {
			v.release("")
		}
		if !isText(p) || !v.tell(p) {
			v.progress(e, width)
		}
	case *a2a.Message:
		v.release(Sanitize(transport.Text(p.Parts)))
		v.silence("")
		v.answer(p)
		return
	}
	v.paint()
}

func (v *turnView) delta(p *transport.Delta) {
	if p.Attempt != v.attempt && v.written.Len() > 0 {
		v.restart()
		v.ui.Say("(starting again)", lookDim)
	}
	v.attempt = p.Attempt
	if v.written.Len() > transport.MaxText {
		return
	}
	text := v.clean.Clean(p.Text)
	v.written.WriteString(text)
	v.write(text, "")
}

// write adds to the text being written; paint shows it.
func (v *turnView) write(text, look string) {
	if !v.ui.repaint {
		v.ui.Stream(text)
		return
	}
	if v.out == nil {
		v.out = newWriting(v.ui.style, look)
	}
	v.out.add(text)
}

// finish shows the rest of the text being written, and ends it.
func (v *turnView) finish() {
	if v.out != nil {
		width, _ := v.ui.size()
		done, _ := v.out.draw(width, true)
		v.ui.Flow(joinLines(done), nil)
		v.out, v.pause = nil, 0
	}
	v.ui.EndStream()
}

// restart ends the streamed text.
func (v *turnView) restart() {
	v.finish()
	v.written.Reset()
	v.clean = Sanitizer{}
}

func (v *turnView) progress(e *transport.Event, width int) {
	d := v.board.progressed(e)
	if d == nil || v.ui.repaint || v.now().Sub(d.shown) < time.Second {
		return
	}
	d.shown = v.now()
	v.ui.Print(d.line(v.now(), width, v.ui.style))
}

// answer shows the answer, or the part of it that was not streamed.
func (v *turnView) answer(m *a2a.Message) {
	text, look := Sanitize(transport.Text(m.Parts)), ""
	failed, _ := m.Metadata[transport.MetaFailed].(bool)
	v.done = true
	switch written := v.written.String(); {
	case written == "" && !failed && v.ui.repaint && v.heard != "" && strings.TrimSpace(text) == v.heard:
		text = "" // it is on the screen, as it came from the agent
	case written == "":
	case strings.HasPrefix(text, written):
		text, failed = text[len(written):], false
	case strings.TrimSpace(text) == strings.TrimSpace(written):
		text = ""
	default:
		v.finish()
		if !failed { // a failure explains itself
			v.ui.Say("(the whole answer:)", lookDim)
		}
	}
	if failed {
		look = lookRed
	}
	v.write(text, look)
	v.finish()
}

// typing shows what the user types during the turn.
func (v *turnView) typing(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.typed = text
	v.paint()
}

// tick repaints what depends on the time.
func (v *turnView) tick() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.paint()
}

// clock calls tick again and again, until stop is called.
func (v *turnView) clock() (stop func()) {
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		t := time.NewTicker(redraw)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				v.tick()
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		running.Wait()
	}
}

// track shows what an event says of the delegations, without the texts that are being written: the answer goes elsewhere.
func (v *turnView) track(e *transport.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch p := e.Payload.(type) {
	case *a2a.Task:
		v.release("")
		v.board.started(p)
	case *a2a.TaskStatusUpdateEvent:
		if e.From != transport.Cortex {
			v.board.progressed(e)
			break
		}
		width, _ := v.ui.size()
		v.settle(v.board.settled(p, width, v.ui.style))
	case *a2a.TaskArtifactUpdateEvent:
		v.board.progressed(e)
	}
	v.paint()
}

// followed says which answer will be shown below this view.
func (v *turnView) followed(answer string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.release(answer)
}

// settle shows the last line of a delegation. One with a reason is temporary until it is known whether the answer has that reason, too: it is said
// once then. Lines that come meanwhile wait behind it.
func (v *turnView) settle(o outcome) {
	switch {
	case o.line == "":
		return
	case !v.ui.repaint, o.reason == "" && len(v.held) == 0:
		v.ui.Print(o.line)
		return
	case len(v.held) == maxHeld:
		v.release("")
	}
	v.held = append(v.held, o)
}

// release prints the lines that wait, without the reasons that answer has.
func (v *turnView) release(answer string) {
	for _, o := range v.held {
		if o.reason != "" && strings.Contains(oneLine(answer), o.reason) {
			o.line = o.brief
		}
		v.ui.Print(o.line)
	}
	v.held = nil
}

// end removes temporary output.
func (v *turnView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.release("")
	v.done = true
	v.finish()
	v.ui.Live(nil)
}

// paint shows the text being written, and the open delegations, or that the turn waits for something.
func (v *turnView) paint() {
	if v.done || !v.ui.repaint {
		return
	}
	width, height := v.ui.size()
	s, now := v.ui.style, v.now()
	var lines []string
	for _, o := range v.held {
		lines = append(lines, o.line)
	}
	room := max(min(height-3-len(lines), 12), 1)
	for i, d := range v.board.open {
		if i == room-1 && len(v.board.open) > room {
			lines = append(lines, s.dim(table.Fit("… and "+count(len(v.board.open)-i, "more task"), width-1)))
			break
		}
		lines = append(lines, d.line(now, width, s))
	}
	idle := len(v.board.open) == 0
	if v.typed != "" {
		lines = append(lines, s.dim("> "+table.Fit(v.typed, width-3)))
	}
	if v.out != nil {
		if now.Sub(v.drawn) < v.pause {
			return
		}
		done, live := v.out.draw(width, false)
		// A large block that changes is laid out less often, and only its end is shown.
		v.drawn, v.pause = now, max(redraw, 4*v.now().Sub(now))
		if room := max(height-2-len(lines), 1); len(live) > room {
			live = append([]string{s.dim("…")}, live[len(live)-room+1:]...)
		}
		v.ui.Flow(joinLines(done), append(live, lines...))
		return
	}
	if waited := now.Sub(v.start); idle && waited >= redraw {
		lines = slices.Insert(lines, len(v.held), s.dim(table.Fit(waiting(waited), width-1)))
	}
	v.ui.Live(lines)
}

// redraw is the shortest interval between two layouts, and the interval of the spinner's frames.
const redraw = 100 * time.Millisecond

// turning has the frames of the spinner.
var turning = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// waiting returns the line that is shown while there is nothing else to show.
func waiting(d time.Duration) string {
	line := turning[int(d/redraw)%len(turning)] + " thinking"
	if d >= time.Second {
		line += "  " + elapsed(d) + "  (Ctrl-C cancels)"
	}
	return line
}
