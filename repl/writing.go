package repl

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/stars"
)

// writing is a Markdown text on its way to the screen. Complete blocks are shown once; the block that is being written is laid out again as it grows.
type writing struct {
	*markdown
	source string // from the first block that is not shown completely
	shown  int    // units of source that are shown
	next   int    // offset of the first unit that is not shown
	gap    bool   // an empty line precedes source
	size   int    // of the whole text, in bytes
	plain  bool   // the rest is shown without formatting
}

// Parsing time grows faster than the size of a block. Texts larger than people read are shown without formatting. In bytes.
const (
	maxTogether = 16 << 10  // without an empty line
	maxMarkdown = 128 << 10 // in total
	maxLive     = 4 << 10   // of an unfinished line, from its end
)

func newWriting(s style, look string) *writing { return &writing{markdown: newMarkdown(s, look)} }

// render lays out a complete text, as lines with their ends.
func render(text string, width int, s style, look string) string {
	w := newWriting(s, look)
	w.add(text)
	done, _ := w.draw(width, true)
	return joinLines(done)
}

// joinLines joins lines, each with a line end.
func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// add appends the next, sanitized piece of the text.
func (w *writing) add(piece string) {
	w.source += piece
	w.size += len(piece)
}

// draw returns the lines that are final and the lines that may still change, all of which fit the screen. With whole, the text is complete and all
// lines are final.
func (w *writing) draw(width int, whole bool) (done, live []string) {
	if whole && w.size == len(w.source) && stars.IsJSON(w.source) {
		w.plain = true
	}
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

// drop removes the blocks that are shown completely from source.
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

// lines returns lines without formatting, wrapped between words.
func (w *writing) lines(text string, width int, hard bool) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		for _, part := range wrapSpans([]span{{expandTabs(line), w.look}}, width-1, hard) {
			lines = append(lines, w.style.paintAll(part))
		}
	}
	return lines
}

// together returns the size in bytes of the largest part of a text without an empty line.
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
