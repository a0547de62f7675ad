package stars_test

import (
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/util"

	"github.com/cortex-orchestrator/cortex/internal/stars"
)

// TestStars checks what stays a calculation, and what stays emphasis.
func TestStars(t *testing.T) {
	mark := goldmark.New(goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(stars.Parser, stars.Priority))))
	for text, want := range map[string]string{
		"2*3*4 = 24":           "2*3*4 = 24",
		"12*12 = 144, 3*3 = 9": "12*12 = 144, 3*3 = 9",
		"(1+2)*(3+4)*(5)":      "(1+2)*(3+4)*(5)",
		"(1+2)*3*(4)":          "(1+2)*3*(4)",
		"2**3**2 = 512":        "2**3**2 = 512",
		"2*x*4":                "2*x*4",
		"*3* of **12**":        "<em>3</em> of <strong>12</strong>",
		"un*believ*able":       "un<em>believ</em>able",
		"**2**. *a*, (*5*)":    "<strong>2</strong>. <em>a</em>, (<em>5</em>)",
		"**1. first:** 2":      "<strong>1. first:</strong> 2",
		"***7***":              "<em><strong>7</strong></em>",
	} {
		var b strings.Builder
		if err := mark.Convert([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(b.String()); got != "<p>"+want+"</p>" {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
