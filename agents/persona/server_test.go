package persona_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/agents/persona"
)

// The test binary is an MCP server, or an agent, when one of these is set.
const (
	asServer = "PERSONA_TEST_SERVER"
	asAgent  = "PERSONA_TEST_AGENT"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(asServer); name != "" {
		if err := newServer(name, os.Getenv("NOTES")).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(asAgent); dir != "" {
		if err := runAgent(dir); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

type place struct {
	Name string `json:"name"`
}

type line struct {
	Text string `json:"text"`
}

// newServer returns one of two servers: facts can be looked up, and notes are lines of a file.
func newServer(name, path string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	no := false
	says := func(text string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	}
	if name == "facts" {
		sdk.AddTool(s, &sdk.Tool{Name: "lookup", Description: "Looks a place up", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			func(_ context.Context, _ *sdk.CallToolRequest, in place) (*sdk.CallToolResult, any, error) {
				if strings.EqualFold(in.Name, "France") {
					return says("The capital of France is Paris.")
				}
				return nil, nil, errors.New("no such place")
			})
		return s
	}
	add := func(text string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text + "\n")
		return errors.Join(err, f.Close())
	}
	sdk.AddTool(s, &sdk.Tool{Name: "append", Description: "Notes a line", Annotations: &sdk.ToolAnnotations{DestructiveHint: &no}},
		func(_ context.Context, _ *sdk.CallToolRequest, in line) (*sdk.CallToolResult, any, error) {
			if err := add(in.Text); err != nil {
				return nil, nil, err
			}
			time.Sleep(2 * time.Millisecond) // a tool takes its time: kills hit it before its answer, too
			if in.Text == "at length" {
				in.Text = strings.Repeat("at length\n", 200_000)
			}
			return says("noted: " + in.Text)
		})
	sdk.AddTool(s, &sdk.Tool{Name: "crash", Description: "Notes a line, and ends the server", Annotations: &sdk.ToolAnnotations{DestructiveHint: &no}},
		func(_ context.Context, _ *sdk.CallToolRequest, in line) (*sdk.CallToolResult, any, error) {
			_ = add(in.Text)
			os.Exit(1)
			return nil, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "clear", Description: "Deletes all notes"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			if err := os.Truncate(path, 0); err != nil {
				return nil, nil, err
			}
			return says("deleted")
		})
	return s
}

// servers opens both servers; notes is the file of the second one.
func servers(ctx context.Context, dir, notes string) ([]*persona.Server, error) {
	var all []*persona.Server
	for _, name := range []string{"facts", "notes"} {
		s := &mcp.Server{Name: name, Argv: []string{os.Args[0]}, Env: []string{asServer + "=" + name, "NOTES=" + notes}, Inherit: true}
		a, err := mcp.Open(ctx, s, &mcp.Options{Dir: dir})
		if err != nil {
			return all, err
		}
		go a.Run(ctx) //nolint:errcheck // it returns nil
		all = append(all, &persona.Server{Name: name, Agent: a})
	}
	return all, nil
}
