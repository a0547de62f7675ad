package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestCopiesOfStructuredContent checks that a text that only repeats the structured content is left out, and that it is not looked for among very many.
func TestCopiesOfStructuredContent(t *testing.T) {
	for _, c := range []struct {
		texts   int
		leftOut bool
	}{{1, true}, {maxCopies, true}, {maxCopies + 1, false}} {
		r := &sdk.CallToolResult{StructuredContent: map[string]any{"n": 7.0, "of": "x"}}
		for range c.texts {
			r.Content = append(r.Content, &sdk.TextContent{Text: "7"})
		}
		got, err := resultOf(t.Context(), &agents.Task{ID: "t"}, &tool{}, r)
		if err != nil {
			t.Fatal(err)
		}
		if text := transport.Text(got.Parts); (text == "") != c.leftOut {
			t.Errorf("of %d copies the result says %q", c.texts, text)
		}
	}
}
