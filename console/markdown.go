package console

import (
	"bytes"
	"html/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/cortex-orchestrator/cortex/internal/stars"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxMarkdown bounds what is read as Markdown, in bytes: longer texts are shown as they are, since parsing some of them takes long.
const maxMarkdown = 32 << 10

// reader of Markdown. Raw HTML is left out, and so are links with other schemes than those of the web and mail. An image of a stranger is not loaded,
// which would tell them who reads: it becomes a link.
var mark = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough, extension.TaskList),
	goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(stars.Parser, stars.Priority)), parser.WithASTTransformers(util.Prioritized(outward{}, 100))),
	goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(code{}, 100))),
)

// code renders blocks of code, which may be wider than the page: the keyboard can scroll them.
type code struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (code) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	block := func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString("<pre tabindex=\"0\"><code>")
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				_, _ = w.Write(util.EscapeHTML(line.Value(source)))
			}
			_, _ = w.WriteString("</code></pre>\n") // w is a buffer, whose end reports what failed
		}
		return ast.WalkSkipChildren, nil
	}
	r.Register(ast.KindCodeBlock, block)
	r.Register(ast.KindFencedCodeBlock, block)
}

// outward makes links of images, marks links as those of others, and has headings begin below that of the page and go down by one level at a time.
type outward struct{}

// Transform implements [parser.ASTTransformer].
func (outward) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	var images []*ast.Image
	level := 1
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			images = append(images, n)
		case *ast.Link:
			external(n)
		case *ast.AutoLink:
			external(n)
		case *ast.Heading:
			n.Level = max(2, min(n.Level, level+1))
			level = n.Level
		case *tables.Table:
			n.SetAttributeString("tabindex", []byte("0")) // as with blocks of code
		}
		return ast.WalkContinue, nil
	})
	for _, n := range images {
		link := ast.NewLink()
		link.Destination, link.Title = n.Destination, n.Title
		external(link)
		for child := n.FirstChild(); child != nil; child = n.FirstChild() {
			link.AppendChild(link, child)
		}
		if link.FirstChild() == nil {
			link.AppendChild(link, ast.NewString([]byte("image")))
		}
		n.Parent().ReplaceChild(n.Parent(), n, link)
	}
}

func external(n ast.Node) {
	n.SetAttributeString("rel", []byte("nofollow noopener noreferrer"))
	n.SetAttributeString("target", []byte("_blank"))
}

// markdown renders a text of others as HTML. It is the only place where HTML is not escaped by the templates.
func markdown(s string) template.HTML {
	s = prompt.CleanText(s, maxText)
	var b bytes.Buffer
	if len(s) > maxMarkdown || stars.IsJSON(s) || mark.Convert([]byte(s), &b) != nil {
		return template.HTML("<p class=\"plain\">" + template.HTMLEscapeString(s) + "</p>") //nolint:gosec // it is escaped
	}
	return template.HTML(b.String()) //nolint:gosec // without raw HTML, see mark
}
