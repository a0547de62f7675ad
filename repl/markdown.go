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

	"github.com/cortex-orchestrator/cortex/internal/stars"
	"github.com/cortex-orchestrator/cortex/internal/table"
)

// Looks of text, as parameters of a colour sequence.
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

// markdown lays out texts in Markdown. It keeps line ends and blank lines, since most messages are written to be read unformatted. Definitions of
// links stay, and underlines do not make headings, so that what follows never changes what was already shown.
type markdown struct {
	parser parser.Parser
	style  style
	look   string // of the whole text
}

func newMarkdown(s style, look string) *markdown {
	return &markdown{style: s, look: look, parser: parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewThematicBreakParser(), 200), util.Prioritized(parser.NewListParser(), 300), util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500), util.Prioritized(parser.NewATXHeadingParser(), 600), util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800), util.Prioritized(parser.NewHTMLBlockParser(), 900), util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(append(parser.DefaultInlineParsers(),
			util.Prioritized(stars.Parser, stars.Priority), util.Prioritized(extension.NewStrikethroughParser(), 500), util.Prioritized(extension.NewTaskCheckBoxParser(), 0))...),
		parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)}
}

// unit is what is laid out at once: a paragraph, a heading, a table, a line of code. When a text grows, only its last unit changes.
type unit struct {
	at          int    // offset in the source of the beginning of its first line
	gap         bool   // an empty line is above it
	above       []span // the prefix of that line
	first, rest []span // the prefixes of its first line and of the others
	body        func(width int, hard bool) [][]span
}

// layout returns the lines of a unit. With hard they are narrower than width; otherwise words that are too wide are left to the terminal to wrap.
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
			before = wrapSpans(before, width, true)[0] // without the trailing spaces
		}
		lines = append(lines, s.paintAll(before)+s.paintAll(line))
	}
	return lines
}

// document is a parsed text: its units, and its top-level blocks, at each of which parsing can restart.
type document struct {
	units  []unit
	blocks []block
}

type block struct {
	at   int // offset in the source of the beginning of its first line
	unit int // index of its first unit
}

// parse parses a sanitized text. The screen's width limits the indentation only.
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

	at          int // offset of the next unit
	gap         bool
	above       []span
	first, rest []span
}

func (w *walker) blocks(parent ast.Node) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		at := w.lineOf(n)
		// A table may end a paragraph, and without that paragraph its first line may be parsed as something else.
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
		if top(n) { // its own indentation
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

// within runs f with a prefix for the lines that f emits; first, if any, is the prefix of the first line.
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
	if len(w.doc.units) == units { // the item is empty
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

// code emits each line as a unit, unwrapped.
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

// flowing returns the body of a text that is wrapped between words.
func flowing(spans []span) func(int, bool) [][]span {
	return func(width int, hard bool) [][]span { return wrapSpans(spans, width, hard) }
}

// top reports whether a block is at the top level.
func top(n ast.Node) bool { return n.Parent() != nil && n.Parent().Kind() == ast.KindDocument }

// lineOf returns the offset of the line in which a block begins.
func (w *walker) lineOf(n ast.Node) int {
	if n.Kind() == extast.KindTable && n.FirstChild() != nil {
		n = n.FirstChild() // a table begins where its paragraph was
	}
	at := min(max(n.Pos(), 0), len(w.source))
	return bytes.LastIndexByte(w.source[:at], '\n') + 1
}

// blankAbove reports whether the line before the line at an offset is blank.
func (w *walker) blankAbove(at int) bool {
	if at == 0 {
		return false
	}
	above := w.source[:at-1]
	above = above[bytes.LastIndexByte(above, '\n')+1:]
	return len(bytes.Trim(above, "> \t\r")) == 0
}

// indent returns the white space at the beginning of a line, as spaces.
func (w *walker) indent(at int) string {
	n := 0
	for n < len(w.source)-at && (w.source[at+n] == ' ' || w.source[at+n] == '\t') {
		n++
	}
	return expandTabs(string(w.source[at : at+n]))
}

// expandTabs replaces the tabs of a line by spaces.
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
