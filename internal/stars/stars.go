// Package stars keeps the stars of calculations in Markdown, for the chat and the console: without it "2*3*4 = 24" is read as 2, an emphasised 3, and 4.
package stars

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Priority is that of Parser among the parsers of inline text: before the one of emphasis, which has 500.
const Priority = 450

// Parser reads stars between numbers and parentheses, without spaces, as what they are. It has no state.
var Parser parser.InlineParser = stars{}

type stars struct{}

// Trigger implements [parser.InlineParser].
func (stars) Trigger() []byte { return []byte{'*'} }

// Parse implements [parser.InlineParser].
func (stars) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, at := block.PeekLine()
	n := 0
	for n < len(line) && line[n] == '*' {
		n++
	}
	next, _ := utf8.DecodeRune(line[n:])
	if !multiplies(block.PrecendingCharacter(), next, n) {
		return nil
	}
	block.Advance(n)
	return ast.NewTextSegment(at.WithStop(at.Start + n))
}

// multiplies reports whether n stars between two characters are an operator: one beside a digit or between parentheses, or two between digits, a power.
// Emphasis within a word has letters on both sides.
func multiplies(before, next rune, n int) bool {
	left, right := unicode.IsDigit(before), unicode.IsDigit(next)
	switch n {
	case 1:
		ends := left || before == ')' || unicode.IsLetter(before)
		begins := right || next == '(' || unicode.IsLetter(next)
		return ends && begins && (left || right || before == ')' && next == '(')
	case 2:
		return left && right
	}
	return false
}

// IsJSON reports whether a text is a JSON object or array, in which the backslashes and stars of Markdown mean something else.
func IsJSON(s string) bool {
	s = strings.TrimSpace(s)
	return s != "" && (s[0] == '{' || s[0] == '[') && json.Valid([]byte(s))
}
