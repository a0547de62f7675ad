package repl

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

// What parts of a text look like, as parameters of a colour sequence.
const (
	lookBold   = "1"
	lookDim    = "2"
	lookItalic = "3"
	lookLink   = "4"
	lookStruck = "9"
	lookRed    = "31"
	lookGreen  = "32"
	lookYellow = "33"
	lookCode   = "36"
)

// markdown lays out texts in Markdown. Lines end where they end in the text, and blank lines stay: most of what is said is written to be
// read as it is. Definitions of links stay as well, and no line below a text makes that a heading, so that what was shown does not depend on
// what comes.
type markdown struct {
	parser parser.Parser
	style  style
	look   string // of all of it
}

func newMarkdown(s style, look string) *markdown {
	return &markdown{style: s, look: look, parser: parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewThematicBreakParser(), 200), util.Prioritized(parser.NewListParser(), 300), util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500), util.Prioritized(parser.NewATXHeadingParser(), 600), util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800), util.Prioritized(parser.NewHTMLBlockParser(), 900), util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(append(parser.DefaultInlineParsers(),
			util.Prioritized(extension.NewStrikethroughParser(), 500), util.Prioritized(extension.NewTaskCheckBoxParser(), 0))...),
		parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)}
}

// unit is what is laid out at once: a paragraph, a heading, a table, a line of code. A text that grows changes its last one only.
type unit struct {
	at          int    // in the source: the beginning of a line
	gap         bool   // an empty line is above it
	above       []span // what stands on that
	first, rest []span // what stands before its first line, and the others
	body        func(width int, hard bool) [][]span
}

// layout returns the lines of a unit. Each is narrower than the screen if hard; else what has no spaces is left to the terminal.
func (u *unit) layout(width int, hard bool, s style) []string {
	var lines []string
	if u.gap {
		lines = append(lines, strings.TrimRight(s.paintAll(u.above), " "))
	}
	room := width - 1 - table.Width(plainText(u.rest))
	for i, line := range u.body(max(room, 1), hard) {
		before := u.rest
		if i == 0 {
			before = u.first
		}
		if len(line) == 0 {
			before = wrapSpans(before, width, true)[0] // without the spaces at its end
		}
		lines = append(lines, s.paintAll(before)+s.paintAll(line))
	}
	return lines
}

// document is a text that was parsed: its units, and the blocks that are within no other one, from each of which on it can be parsed alone.
type document struct {
	units  []unit
	blocks []block
}

type block struct {
	at   int // in the source: the beginning of a line
	unit int // its first one
}

// parse takes a sanitized text. The screen's width bounds how deep things are indented, and nothing else.
func (m *markdown) parse(source string, width int) *document {
	w := walker{markdown: m, source: []byte(source), width: width, doc: new(document)}
	root := m.parser.Parse(text.NewReader(w.source))
	w.blocks(root)
	return w.doc
}

// walker makes units of a parsed text.
type walker struct {
	*markdown
	source []byte
	width  int
	doc    *document

	at          int // of the next unit
	gap         bool
	above       []span
	first, rest []span
}

func (w *walker) blocks(parent ast.Node) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		at := w.lineOf(n)
		// A table may end a paragraph, and the line that it begins with be another thing without that.
		if parent.Parent() == nil && (n.Kind() != extast.KindTable || w.blankAbove(at)) {
			w.doc.blocks = append(w.doc.blocks, block{at, len(w.doc.units)})
		}
		if n.PreviousSibling() != nil && w.blankAbove(at) {
			w.gap, w.above = true, w.rest
		}
		w.at = at
		w.block(n)
	}
}

func (w *walker) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		look := with(w.look, lookBold)
		if n.Level == 1 {
			look = with(look, lookLink)
		}
		var spans []span
		if w.style == "" {
			spans = append(spans, span{strings.Repeat("#", n.Level) + " ", look})
		}
		w.emit(flowing(w.inline(n, look, spans)))
	case *ast.Paragraph, *ast.TextBlock:
		var spans []span
		if top(n) { // as far as it is from the margin
			spans = append(spans, span{w.indent(w.lineOf(n)), w.look})
		}
		w.emit(flowing(w.inline(n, w.look, spans)))
	case *ast.FencedCodeBlock, *ast.CodeBlock, *ast.HTMLBlock:
		w.code(n)
	case *ast.ThematicBreak:
		w.emit(func(width int, _ bool) [][]span {
			return [][]span{{{strings.Repeat("─", min(width, 40)), with(w.look, lookDim)}}}
		})
	case *ast.Blockquote:
		w.within([]span{{"│ ", with(w.look, lookDim)}}, nil, func() { w.blocks(n) })
	case *ast.List:
		w.list(n)
	case *extast.Table:
		w.emit(w.table(n))
	default:
		w.blocks(n)
	}
}

// within has what f emits stand behind a prefix; first, if any, is that of the first line.
func (w *walker) within(prefix, first []span, f func()) {
	if first == nil {
		first = prefix
	}
	outer := w.rest
	deep := table.Width(plainText(outer))+table.Width(plainText(prefix)) > w.width/2
	if !deep {
		w.first = append(w.first[:len(w.first):len(w.first)], first...)
		w.rest = append(outer[:len(outer):len(outer)], prefix...)
	}
	units := len(w.doc.units)
	f()
	if len(w.doc.units) == units { // nothing is in it
		w.emit(flowing(nil))
	}
	w.rest, w.first = outer, outer
}

func (w *walker) list(n *ast.List) {
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if item.PreviousSibling() != nil && w.blankAbove(w.lineOf(item)) {
			w.gap, w.above = true, w.rest
		}
		mark := "• "
		if n.IsOrdered() {
			mark = strconv.Itoa(number) + string(n.Marker) + " "
			number++
		}
		w.within([]span{{strings.Repeat(" ", table.Width(mark)), w.look}}, []span{{mark, w.look}}, func() { w.blocks(item) })
	}
}

// code emits lines as they are, each for itself.
func (w *walker) code(n ast.Node) {
	look, indent := with(w.look, lookCode), "  "
	segments := n.Lines()
	lines, at := make([]string, 0, segments.Len()), make([]int, 0, segments.Len())
	add := func(line text.Segment) {
		lines, at = append(lines, string(line.Value(w.source))), append(at, bytes.LastIndexByte(w.source[:line.Start], '\n')+1)
	}
	for i := range segments.Len() {
		add(segments.At(i))
	}
	if h, ok := n.(*ast.HTMLBlock); ok {
		look, indent = w.look, ""
		if h.HasClosure() {
			add(h.ClosureLine)
		}
	}
	for i, line := range lines {
		w.at = at[i]
		line = expandTabs(strings.TrimRight(line, "\r\n"))
		w.emit(func(width int, hard bool) [][]span {
			if line == "" {
				return [][]span{nil}
			}
			spans := []span{{indent + line, look}}
			if !hard || table.Width(indent+line) <= width {
				return [][]span{spans}
			}
			return wrapSpans(spans, width, true)
		})
	}
}

// emit adds a unit.
func (w *walker) emit(body func(width int, hard bool) [][]span) {
	w.doc.units = append(w.doc.units, unit{at: w.at, gap: w.gap, above: w.above, first: w.first, rest: w.rest, body: body})
	w.gap, w.above, w.first = false, nil, w.rest
}

// flowing is the body of a text that is broken between its words.
func flowing(spans []span) func(int, bool) [][]span {
	return func(width int, hard bool) [][]span { return wrapSpans(spans, width, hard) }
}

// top reports whether a block is within no other one.
func top(n ast.Node) bool { return n.Parent() != nil && n.Parent().Kind() == ast.KindDocument }

// lineOf returns where the line begins in which a block does.
func (w *walker) lineOf(n ast.Node) int {
	if n.Kind() == extast.KindTable && n.FirstChild() != nil {
		n = n.FirstChild() // the table is where its paragraph was
	}
	at := min(max(n.Pos(), 0), len(w.source))
	return bytes.LastIndexByte(w.source[:at], '\n') + 1
}

// blankAbove reports whether the line before the one that begins at a place says nothing.
func (w *walker) blankAbove(at int) bool {
	if at == 0 {
		return false
	}
	above := w.source[:at-1]
	above = above[bytes.LastIndexByte(above, '\n')+1:]
	return len(bytes.Trim(above, "> \t\r")) == 0
}

// indent returns the spaces that a line begins with.
func (w *walker) indent(at int) string {
	n := 0
	for n < len(w.source)-at && (w.source[at+n] == ' ' || w.source[at+n] == '\t') {
		n++
	}
	return expandTabs(string(w.source[at : at+n]))
}

// expandTabs returns a line with spaces for its tabs.
func expandTabs(line string) string {
	const stop = 4
	var b strings.Builder
	at := 0
	for i, cell := range strings.Split(line, "\t") {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", stop-at%stop))
			at += stop - at%stop
		}
		b.WriteString(cell)
		at += table.Width(cell)
	}
	return b.String()
}
