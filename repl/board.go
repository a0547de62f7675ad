package repl

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/transport"
)

// board holds the open delegations of one turn.
type board struct {
	now   func() time.Time
	named func(agent string) string // formats an agent's id; nil leaves it unchanged
	runs  func(agent string) bool   // reports whether an agent runs; nil: it does
	open  []*delegation

	asked   bool                       // one of this turn waits for the user
	waiting map[a2a.TaskID]*delegation // of this turn and earlier ones, those that wait for the user; nil: not noted
}

// delegation is one task on the board. Its texts are sanitized and on one line.
type delegation struct {
	id       a2a.TaskID
	agent    string
	away     func() bool // reports that the agent does not run; nil: it does
	text     string      // what was asked
	progress string
	written  string    // the end of the text of its result so far
	consent  bool      // it waits for a yes or a no
	start    time.Time // zero when the beginning was not seen
	shown    time.Time // when progress was last printed, on an output that is not repainted
}

// maxOpen bounds the delegations on the board; the orchestrator allows fewer open tasks.
const maxOpen = 64

// started adds a delegation; it returns nil if there are too many.
func (b *board) started(t *a2a.Task) *delegation {
	if len(b.open) >= maxOpen {
		return nil
	}
	d := &delegation{id: t.ID, start: b.now()}
	b.assign(d, client.TaskAgent(t))
	if len(t.History) > 0 && t.History[0] != nil {
		d.text = oneLine(transport.Text(t.History[0].Parts))
	}
	d.agent = cmp.Or(d.agent, "an agent")
	b.open = append(b.open, d)
	return d
}

// assign sets the agent of a delegation.
func (b *board) assign(d *delegation, id string) {
	d.agent, d.away = b.agent(id), nil
	if b.runs != nil && id != "" {
		d.away = func() bool { return !b.runs(id) }
	}
}

// agent formats an agent's id.
func (b *board) agent(id string) string {
	if b.named != nil && id != "" {
		id = b.named(id)
	}
	return oneLine(id)
}

// progressed records an agent's progress; it returns nil if there is nothing new.
func (b *board) progressed(e *transport.Event) *delegation {
	text := ""
	switch p := e.Payload.(type) {
	case *a2a.TaskStatusUpdateEvent:
		if p.Status.Message != nil {
			text = oneLine(transport.Text(p.Status.Message.Parts))
		}
	case *a2a.TaskArtifactUpdateEvent:
		if isText(p) {
			text = b.wrote(p)
		} else if text = oneLine(p.Artifact.Name); text == "" {
			text = oneLine(transport.Text(p.Artifact.Parts))
		}
	}
	for _, d := range b.open {
		if d.id == client.TaskOf(e) && text != "" && text != d.progress {
			d.progress = text
			return d
		}
	}
	return nil
}

// maxWritten bounds how much of the end of an agent's text is kept, in bytes; one line of it is shown.
const maxWritten = 4 << 10

// wrote records a piece of an agent's text, and returns its current line.
func (b *board) wrote(u *a2a.TaskArtifactUpdateEvent) string {
	for _, d := range b.open {
		if d.id != u.TaskID {
			continue
		}
		if !u.Append {
			d.written = ""
		}
		d.written += transport.Text(u.Artifact.Parts)
		d.written = d.written[max(len(d.written)-maxWritten, 0):]
		return oneLine(lastLine(d.written))
	}
	return ""
}

// retried records which agent tries a delegation again, and returns a line with the reason.
func (b *board) retried(u *a2a.TaskStatusUpdateEvent, width int, s style) string {
	agent := transport.MetaString(u, transport.MetaAgentID)
	for _, d := range b.open {
		if d.id == u.TaskID && agent != "" {
			d.progress = ""
			b.assign(d, agent)
		}
	}
	if u.Status.Message == nil {
		return ""
	}
	return s.yellow("↻") + " " + s.dim(table.Fit(oneLine(transport.Text(u.Status.Message.Parts)), max(width-3, 1)))
}

// outcome is the last line of a delegation, with the reason of its state, and without it for when the answer has that.
type outcome struct{ line, brief, reason string }

// settled removes a delegation and returns its last line, or one with the agent of the next attempt.
func (b *board) settled(u *a2a.TaskStatusUpdateEvent, width int, s style) outcome {
	state := u.Status.State
	switch state {
	case a2a.TaskStateSubmitted:
		return outcome{line: b.retried(u, width, s)}
	case a2a.TaskStateWorking:
		return outcome{}
	}
	d := &delegation{agent: b.agent(transport.MetaString(u, transport.MetaAgentID))}
	if waited := b.waiting[u.TaskID]; waited != nil {
		d.text, d.agent = waited.text, cmp.Or(d.agent, waited.agent)
		delete(b.waiting, u.TaskID)
	}
	for i, open := range b.open {
		if open.id == u.TaskID {
			d = open
			b.open = append(b.open[:i], b.open[i+1:]...)
			break
		}
	}
	d.agent = cmp.Or(d.agent, "an agent")
	reason := ""
	if u.Status.Message != nil {
		reason = oneLine(transport.Text(u.Status.Message.Parts))
	}
	took := ""
	if !d.start.IsZero() {
		took = elapsed(b.now().Sub(d.start))
	}
	switch state {
	case a2a.TaskStateCompleted:
		return outcome{line: s.green("✓") + " " + s.dim(layout(d.agent, d.text, took, width-2))}
	case a2a.TaskStateAuthRequired:
		d.consent = true
		b.waits(d)
		return outcome{line: s.yellow("?") + " " + s.dim(layout(d.agent, client.StateName(state), took, width-2))}
	case a2a.TaskStateInputRequired:
		d.consent = false
		b.waits(d)
		ask := func(reason string) string {
			return s.yellow("?") + " " + s.dim(layout(d.agent, join("asks", reason), took, width-2))
		}
		return outcome{ask(reason), ask(""), reason}
	}
	end := func(reason string) string {
		return s.red("✗") + " " + s.dim(failedLayout(d, took, join(client.StateName(state), reason), width-2))
	}
	return outcome{end(reason), end(""), reason}
}

// waits notes what a delegation is to do that waits for the user: the turn that ends it may be another one.
func (b *board) waits(d *delegation) {
	b.asked = true
	if b.waiting != nil && len(b.waiting) < maxOpen && d.id != "" {
		b.waiting[d.id] = d
	}
}

// line returns the current line of an open delegation.
func (d *delegation) line(now time.Time, width int, s style) string {
	what, took := d.text, elapsed(now.Sub(d.start))
	switch {
	case d.progress != "":
		what = d.progress
	case d.away != nil && d.away():
		what = join("does not run, waits", d.text)
	}
	return s.yellow("·") + " " + s.dim(layout(d.agent, what, took, width-2))
}

// layout returns "agent text time" in at most width-1 columns; it shortens the text to fit. The last column stays empty: some terminals wrap after
// writing to it, which would break repainting.
func layout(agent, text, took string, width int) string {
	agent = table.Fit(agent, max(width/3, 8))
	used := table.Width(agent)
	if took != "" {
		took = "  " + took
		used += table.Width(took)
	}
	if room := width - 1 - used - 2; text != "" && room >= 4 {
		text = "  " + table.Fit(text, room)
	} else {
		text = ""
	}
	return table.Fit(agent+text+took, max(width-1, 1))
}

// failedLayout is a layout with the reason of a failure at the end, which takes precedence over the request.
func failedLayout(d *delegation, took, reason string, width int) string {
	reason = table.Fit(reason, max(width/2, 8))
	return layout(d.agent, d.text, strings.TrimLeft(took+"  "+reason, " "), width)
}

// elapsed formats a duration briefly.
func elapsed(d time.Duration) string {
	switch {
	case d < 0:
		d = 0
		fallthrough
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

func join(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}
