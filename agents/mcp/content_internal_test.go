package mcp

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
)

// A text is a text, also when the server wraps it in an object.
func TestResult(t *testing.T) {
	text, data := func(s string) *a2a.Part { return a2a.NewTextPart(s) }, func(v any) *a2a.Part { return a2a.NewDataPart(v) }
	for name, test := range map[string]struct {
		structured any
		texts      []string
		want       a2a.ContentParts
	}{
		"content and a copy":  {map[string]any{"content": "a: b\nc"}, []string{"a: b\nc"}, a2a.ContentParts{text("a: b\nc")}},
		"content alone":       {map[string]any{"content": "a: b\nc"}, nil, a2a.ContentParts{text("a: b\nc")}},
		"result and its JSON": {map[string]any{"result": "x"}, []string{`{"result": "x"}`}, a2a.ContentParts{text("x")}},
		"another text":        {map[string]any{"result": "x"}, []string{"y"}, a2a.ContentParts{text("x"), text("y")}},
		"a number":            {map[string]any{"result": 5.0}, []string{"5"}, a2a.ContentParts{data(map[string]any{"result": 5.0})}},
		"two fields":          {map[string]any{"content": "x", "kind": "y"}, nil, a2a.ContentParts{data(map[string]any{"content": "x", "kind": "y"})}},
		"another field":       {map[string]any{"name": "x"}, nil, a2a.ContentParts{data(map[string]any{"name": "x"})}},
	} {
		r := &sdk.CallToolResult{StructuredContent: test.structured}
		for _, s := range test.texts {
			r.Content = append(r.Content, &sdk.TextContent{Text: s})
		}
		got, err := result(t.Context(), &agents.Task{}, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got.Parts); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
