package llm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
)

// TestReadmeIsComplete checks that the README explains each kind of error, and each mode of structured output.
func TestReadmeIsComplete(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			rows = append(rows, "\n| `"+spec.Names[0].Name+"` |")
		}
		return true
	})
	if len(rows) < 13 {
		t.Fatalf("errors.go has %d errors", len(rows))
	}
	for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt} {
		rows = append(rows, "\n| `"+string(mode)+"` |")
	}
	for _, row := range rows {
		if !strings.Contains(readme, row) {
			t.Errorf("the README has no row %q", strings.TrimSpace(row))
		}
	}
}
