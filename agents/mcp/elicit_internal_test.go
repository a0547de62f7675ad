package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestFormsAreBounded checks that neither a server's form nor a reply makes reading the reply take long.
func TestFormsAreBounded(t *testing.T) {
	form := func(choices int) *sdk.ElicitParams {
		var all []any
		for i := range choices {
			all = append(all, fmt.Sprint("c", i))
		}
		return &sdk.ElicitParams{Message: "Which?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"type": "string", "enum": all}}}}
	}
	if _, err := words("server", form(maxChoices+1)); err == nil || !strings.Contains(err.Error(), "1001 choices of x, at most 1000 are allowed") {
		t.Errorf("a form with too many choices: %v", err)
	}
	is := form(maxChoices)
	if _, err := answer(is, strings.Repeat("x: c1\n", maxReply/6+1), nil); !errors.Is(err, errUnfit) || !strings.Contains(err.Error(), "at most 65536 are read") {
		t.Errorf("a long reply: %v", err)
	}
	if r, err := answer(is, strings.Repeat("x: c1\n", maxReply/6-1)+"x: c999", nil); err != nil || r.Content["x"] != "c999" {
		t.Errorf("a reply of many lines: %v, %v", r, err)
	}
	free := &sdk.ElicitParams{Message: "What?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"type": "string"}}}}
	if r, err := answer(free, strings.Repeat("x", 2*maxReply), nil); err != nil || len(r.Content["x"].(string)) != 2*maxReply {
		t.Errorf("a long text: %v", err)
	}
	f, err := formOf(is)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = f.Properties["x"].choose("c999") }); n > 1 {
		t.Errorf("%v allocations for a choice: what it is compared with is made again", n)
	}
}
