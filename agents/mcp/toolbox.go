package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// ErrUnknown is wrapped by the error of [Agent.Call] when the call may have been made, and nobody knows what came of it.
var ErrUnknown = errors.New("the outcome is unknown")

// Tool describes a tool of a server to a caller that keeps its own journal, such as an agent that chooses its tools itself.
type Tool struct {
	Name, Description string
	Input             json.RawMessage // JSON Schema of the arguments; nil: any
	ReadOnly          bool
	Repeatable        bool // a call that was cut off may be made again
	Destructive       bool // a call may destroy something: the user should consent first
	Doubted           bool // it says something else of itself than when it was first seen, or that is not known: likewise, whatever else it says
}

// Tools returns the tools that the server has now. It is empty while the server is unavailable for the first time.
func (a *Agent) Tools() []Tool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Tool
	for _, t := range a.tools {
		all = append(all, Tool{
			Name: t.Name, Description: shorten.To(t.Description, maxDescription), Input: t.input,
			ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint, Repeatable: t.repeatable(), Destructive: t.destructive(),
			Doubted: slices.Contains(a.doubted, t.Name),
		})
	}
	return all
}

// Call calls a tool for a task, without a record in the journal, and returns what it says as text. Progress is shown as the task's. The tool's own
// failures and wrong arguments are errors; ErrUnknown tells those after which the call may have been made. A question of the server is
// declined. Call is safe for concurrent use.
func (a *Agent) Call(ctx context.Context, t *agents.Task, name string, arguments json.RawMessage) (string, error) {
	of, err := a.tool(name)
	if err != nil {
		return "", err
	}
	if of.check != nil {
		if err := of.check.Validate(arguments); err != nil {
			return "", fmt.Errorf("the input does not fit: %w", err)
		}
	}
	for round := range maxRounds {
		s, err := a.await(ctx)
		if err != nil {
			return "", err
		}
		p := &sdk.CallToolParams{Name: of.Name, Arguments: arguments}
		end := a.span(ctx, t, of, p)
		one, err := s.calls.begin(ctx, s, uuid.NewString(), p, t.Progress)
		if err != nil {
			end(nil, err)
			return "", err
		}
		res, err := a.wait(ctx, one)
		end(res, err)
		var answered *jsonrpc.Error
		switch {
		case err == nil && res.NeedsInput() && len(res.InputRequests) > 0:
			return "", errors.New("the tool asks for more than its arguments, which is not possible here: give it all that it needs")
		case err == nil && res.NeedsInput(): // it is busy
			if rest.For(ctx, roundPause) != nil {
				return "", context.Cause(ctx)
			}
		case err == nil && res.IsError:
			return "", errors.New(failure(res))
		case err == nil:
			return textOf(res), nil
		case one.posts.isUnsent(err) || of.repeatable() && errors.Is(err, sdk.ErrConnectionClosed):
			a.recover(s, err)
			if round > 0 || isRefused(err) {
				return "", fmt.Errorf("the call was not made: %s", a.server.hide(plainURL(err).Error()))
			}
			select { // try once more with a new session
			case <-s.ending:
			case <-s.ended:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		case errors.As(err, &answered) && !isOwn(answered.Code):
			return "", errors.New(shorten.To(a.server.hide(answered.Message), 4<<10))
		default:
			if ctx.Err() == nil {
				a.recover(s, err)
			}
			return "", fmt.Errorf("%w: %s", ErrUnknown, a.server.hide(plainURL(err).Error()))
		}
	}
	return "", errors.New("the server puts the call off again and again")
}

// wait waits for the end of a call, and declines the server's questions.
func (a *Agent) wait(ctx context.Context, one *call) (*sdk.CallToolResult, error) {
	for {
		select {
		case <-one.done:
			return one.result, one.err
		case q := <-one.asked:
			q.answer(&sdk.ElicitResult{Action: "decline"})
		case <-ctx.Done():
			return one.cutOff(context.Cause(ctx))
		}
	}
}

// textOf returns what a result says as text. Other contents are named.
func textOf(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			all = append(all, c.Text)
		case *sdk.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				all = append(all, c.Resource.Text)
			}
		case *sdk.ResourceLink:
			all = append(all, c.URI)
		case *sdk.ImageContent:
			all = append(all, fmt.Sprintf("[an image, %s, %d bytes, is not shown]", c.MIMEType, len(c.Data)))
		case *sdk.AudioContent:
			all = append(all, fmt.Sprintf("[a recording, %s, %d bytes, is not shown]", c.MIMEType, len(c.Data)))
		}
	}
	if len(all) == 0 && r.StructuredContent != nil {
		b, err := json.Marshal(r.StructuredContent)
		if err == nil {
			all = append(all, string(b))
		}
	}
	return strings.Join(all, "\n")
}
