package repl

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// inline appends the text of a block to spans. Without colours it keeps the marks of bold and code.
func (w *walker) inline(parent ast.Node, look string, spans []span) []span {
	marked := func(n ast.Node, mark, more string) {
		if w.style != "" {
			spans = w.inline(n, with(look, more), spans)
			return
		}
		spans = append(w.inline(n, look, append(spans, span{mark, look})), span{mark, look})
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			spans = append(spans, span{w.said(n.Value(w.source), n.IsRaw()), look})
			if n.SoftLineBreak() || n.HardLineBreak() {
				spans = append(spans, span{"\n" + w.nextIndent(n), look})
			}
		case *ast.String:
			spans = append(spans, span{w.said(n.Value, n.IsRaw() || n.IsCode()), look})
		case *ast.CodeSpan:
			code := ""
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					code += w.said(t.Value(w.source), true)
				}
			}
			if w.style == "" {
				code = "`" + code + "`"
			}
			spans = append(spans, span{code, with(look, lookCode)})
		case *ast.Emphasis:
			if n.Level == 1 {
				marked(n, "*", lookItalic)
			} else {
				marked(n, "**", lookBold)
			}
		case *extast.Strikethrough:
			marked(n, "~~", lookStruck)
		case *ast.Link:
			begin := len(spans)
			spans = w.inline(n, with(look, lookLink), spans)
			spans = w.target(string(n.Destination), look, spans, plainText(spans[begin:]))
		case *ast.Image:
			spans = append(spans, span{"[image] ", look})
			begin := len(spans)
			spans = w.inline(n, look, spans)
			spans = w.target(string(n.Destination), look, spans, plainText(spans[begin:]))
		case *ast.AutoLink:
			spans = append(spans, span{w.said(n.Label(w.source), true), with(look, lookLink)})
		case *ast.RawHTML:
			html := ""
			for i := range n.Segments.Len() {
				piece := n.Segments.At(i)
				html += string(piece.Value(w.source))
			}
			if tag := strings.ToLower(strings.Trim(html, "<> /")); tag == "br" {
				spans = append(spans, span{"\n", look})
			} else {
				spans = append(spans, span{w.said([]byte(html), true), look})
			}
		case *extast.TaskCheckBox:
			box := "[ ] "
			if n.IsChecked {
				box = "[x] "
			}
			spans = append(spans, span{box, look})
		default:
			spans = w.inline(n, look, spans)
		}
	}
	return spans
}

// target appends the target of a link, unless the link's text is the target.
func (w *walker) target(to, look string, spans []span, said string) []span {
	to = strings.Join(strings.Fields(Sanitize(to)), "%20")
	if to == "" || to == said || to == "mailto:"+said {
		return spans
	}
	if said != "" {
		spans = append(spans, span{" ", look})
	}
	return append(spans, span{"(" + to + ")", with(look, lookDim)})
}

// said returns the text of a line. It resolves entities first, since they may stand for control characters.
func (w *walker) said(b []byte, raw bool) string {
	if !raw {
		b = util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences(b)))
	}
	return strings.ReplaceAll(strings.ReplaceAll(Sanitize(string(b)), "\n", " "), "\t", "    ")
}

// nextIndent returns the indentation of the line after a text.
func (w *walker) nextIndent(n *ast.Text) string {
	for p := n.Parent(); p != nil && p.Type() != ast.TypeDocument; p = p.Parent() {
		if p.Type() == ast.TypeBlock && !top(p) {
			return ""
		}
	}
	end := bytes.IndexByte(w.source[n.Segment.Stop:], '\n')
	if end < 0 {
		return ""
	}
	return w.indent(n.Segment.Stop + end + 1)
}
