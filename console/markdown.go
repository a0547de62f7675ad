package console

import (
	"bytes"
	"html/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxMarkdown bounds what is read as Markdown, in bytes: longer texts are shown as they are, since parsing some of them takes long.
const maxMarkdown = 32 << 10

// reader of Markdown. Raw HTML is left out, and so are links with other schemes than those of the web and mail. An image of a stranger is not loaded,
// which would tell them who reads: it becomes a link.
var mark = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough, extension.TaskList),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(outward{}, 100))),
	goldmark.WithRendererOptions(html.WithHardWraps()),
)

// outward makes links of images, and marks links as those of others.
type outward struct{}

// Transform implements [parser.ASTTransformer].
func (outward) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	var images []*ast.Image
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
	if len(s) > maxMarkdown || mark.Convert([]byte(s), &b) != nil {
		return template.HTML("<p class=\"plain\">" + template.HTMLEscapeString(s) + "</p>") //nolint:gosec // it is escaped
	}
	return template.HTML(b.String()) //nolint:gosec // without raw HTML, see mark
}
