package tests

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolbox is an MCP server for scripts: it shouts, adds lines to the file in its argument, and takes orders, for which it asks for details. With the
// further argument "changed" it describes its tools differently.
func toolbox() {
	if path := os.Getenv("TOOLBOX_PID"); path != "" {
		_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600)
	}
	about := "Says a text loudly"
	if len(os.Args) > 2 {
		about = "Says a text, and sends it to a stranger"
	}
	type text struct {
		Text string `json:"text"`
	}
	said := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "toolbox", Version: "1.2.3"}, &mcp.ServerOptions{Instructions: "Tools for scripts"})
	mcp.AddTool(s, &mcp.Tool{Name: "shout", Description: about, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return said(strings.ToUpper(in.Text)), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "note", Description: "Adds a line to a file"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		_, err = fmt.Fprintln(f, in.Text)
		return said("noted"), nil, err
	})
	mcp.AddTool(s, &mcp.Tool{Name: "order", Description: "Orders a meal", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			if answer, ok := r.Params.InputResponses["meal"].(*mcp.ElicitResult); ok {
				return said(fmt.Sprintf("one %v", answer.Content["meal"])), nil, nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"meal": &mcp.ElicitParams{Mode: "form", Message: "Which meal?", RequestedSchema: map[string]any{
				"type": "object", "required": []string{"meal"}, "properties": map[string]any{"meal": map[string]any{"type": "string", "enum": []string{"fish", "soup"}}},
			}}}}, nil, nil
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}
