package repl

import (
	"strings"
)

// writing is a text in Markdown on its way to the screen. What is complete of it is shown once and for good; the block that is being
// written is laid out anew as it grows.
type writing struct {
	*markdown
	source string // from the block on that is not shown whole
	shown  int    // units of it
	next   int    // where the first one begins that is not shown
	gap    bool   // an empty line is above that block
	size   int    // of all of it
	plain  bool   // the rest is shown line by line
}

// Parsing takes time that grows faster than what stands together. What is larger than people read is shown as it is.
const (
	maxTogether = 16 << 10  // without an empty line in it
	maxMarkdown = 128 << 10 // in all
	maxLive     = 4 << 10   // of a line that is being written, from its end
)

func newWriting(s style, look string) *writing { return &writing{markdown: newMarkdown(s, look)} }

// render returns a whole text as the lines of a screen, each with its end.
func render(text string, width int, s style, look string) string {
	w := newWriting(s, look)
	w.add(text)
	done, _ := w.draw(width, true)
	return joinLines(done)
}

// joinLines returns lines, each with its end.
func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// add takes the next piece of the text, which is sanitized.
func (w *writing) add(piece string) {
	w.source += piece
	w.size += len(piece)
}

// draw returns the lines that stay as they are from now on, and those of what is being written, all of which fit the screen. When the text
// is whole, all of them stay.
func (w *writing) draw(width int, whole bool) (done, live []string) {
	if !w.plain && (w.size > maxMarkdown || together(w.source) > maxTogether || costly(w.source)) {
		w.plain = true
		if w.source = w.source[w.next:]; w.gap && w.source != "" {
			done = append(done, "")
		}
	}
	complete := w.source[:strings.LastIndexByte(w.source, '\n')+1]
	if whole {
		complete = w.source
	}
	if w.plain {
		if complete != "" {
			done = append(done, w.lines(complete, width, false)...)
		}
		if w.source = w.source[len(complete):]; w.source != "" {
			end := w.source[max(len(w.source)-maxLive, 0):]
			live = w.lines(strings.ToValidUTF8(end, ""), width, true)
		}
		return done, live
	}
	doc := w.parse(complete, width)
	units := doc.units
	stable := len(units)
	if !whole {
		stable = max(min(w.shown, stable), stable-1, 0)
	}
	for i := w.shown; i < stable; i++ {
		done = append(done, w.unit(units, i, width, false)...)
	}
	if !whole {
		if complete != w.source {
			units = w.parse(w.source, width).units
		}
		for i := stable; i < len(units); i++ {
			live = append(live, w.unit(units, i, width, true)...)
		}
	}
	w.shown = stable
	if stable < len(doc.units) {
		w.next = doc.units[stable].at
	}
	w.drop(doc)
	return done, live
}

// unit returns the lines of a unit.
func (w *writing) unit(units []unit, i, width int, hard bool) []string {
	u := units[i]
	u.gap = u.gap || i == 0 && w.gap
	return u.layout(width, hard, w.style)
}

// drop forgets the blocks that are shown whole.
func (w *writing) drop(doc *document) {
	for i := len(doc.blocks) - 1; i > 0; i-- {
		b := doc.blocks[i]
		if b.unit > w.shown || b.unit == len(doc.units) {
			continue
		}
		above := walker{source: []byte(w.source)}
		w.gap = above.blankAbove(b.at)
		w.source, w.shown, w.next = w.source[b.at:], w.shown-b.unit, max(w.next-b.at, 0)
		return
	}
}

// lines returns lines as they are, each broken between its words.
func (w *writing) lines(text string, width int, hard bool) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		for _, part := range wrapSpans([]span{{expandTabs(line), w.look}}, width-1, hard) {
			lines = append(lines, w.style.paintAll(part))
		}
	}
	return lines
}

// together returns the size of the largest part of a text without an empty line in it.
func together(text string) int {
	most := 0
	for text != "" {
		end := strings.Index(text, "\n\n")
		if end < 0 {
			return max(most, len(text))
		}
		most, text = max(most, end), text[end+2:]
	}
	return most
}
