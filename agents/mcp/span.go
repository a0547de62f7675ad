package mcp

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// span begins the span of a call of a tool, whose W3C trace context p has then. Names and attributes are those of OpenTelemetry's conventions for MCP.
func (a *Agent) span(ctx context.Context, t *agents.Task, of *tool, p *sdk.CallToolParams) (end func(*sdk.CallToolResult, error)) {
	name, transport := shorten.Line(of.Name, 64), "tcp"
	if a.server.URL == "" {
		transport = "pipe"
	}
	parent, state, ended := t.Span(ctx, "tools/call "+name,
		slog.String("mcp.method.name", "tools/call"), slog.String("gen_ai.operation.name", "execute_tool"), slog.String("gen_ai.tool.name", name),
		slog.String("network.transport", transport), slog.String("gen_ai.conversation.id", t.ContextID))
	p.Meta = sdk.Meta{}
	if parent != "" {
		p.Meta["traceparent"] = parent
	}
	if state != "" {
		p.Meta["tracestate"] = state
	}
	return func(res *sdk.CallToolResult, err error) {
		var answered *jsonrpc.Error
		switch {
		case errors.As(err, &answered):
			code := strconv.FormatInt(answered.Code, 10)
			ended(code, slog.String("rpc.response.status_code", code))
		case err != nil && ctx.Err() != nil:
			ended("canceled")
		case err != nil:
			ended("_OTHER")
		case res != nil && res.IsError:
			ended("tool_error")
		default:
			ended("")
		}
	}
}
