package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

type askInput struct {
	Text        string `json:"text" jsonschema:"what is wanted, in words"`
	ContextID   string `json:"context_id,omitempty" jsonschema:"the conversation to go on with; left out, one begins"`
	WaitSeconds int    `json:"wait_seconds,omitempty" jsonschema:"wait at most so long for the answer; left out, as long as hosts usually wait"`
	Key         string `json:"key,omitempty" jsonschema:"any word; a call with the same key and the same words is not asked twice"`
}

type askAgentInput struct {
	Agent       string `json:"agent" jsonschema:"id of the agent, as list_agents has it"`
	Skill       string `json:"skill,omitempty" jsonschema:"id of its skill"`
	Text        string `json:"text,omitempty" jsonschema:"what is wanted, in words"`
	Input       any    `json:"input,omitempty" jsonschema:"what the skill's input_schema asks for"`
	ContextID   string `json:"context_id,omitempty" jsonschema:"the conversation to go on with; left out, one begins"`
	WaitSeconds int    `json:"wait_seconds,omitempty" jsonschema:"as of ask"`
	Key         string `json:"key,omitempty" jsonschema:"as of ask"`
}

type getTurnInput struct {
	TurnID      string `json:"turn_id" jsonschema:"as ask or ask_agent returned it"`
	WaitSeconds int    `json:"wait_seconds,omitempty" jsonschema:"as of ask"`
}

type cancelInput struct {
	TurnID string `json:"turn_id" jsonschema:"as ask or ask_agent returned it"`
	TaskID string `json:"task_id,omitempty" jsonschema:"only this task of the turn"`
}

type replyInput struct {
	TurnID      string `json:"turn_id" jsonschema:"the turn with the question"`
	Text        string `json:"text" jsonschema:"the user's own reply"`
	WaitSeconds int    `json:"wait_seconds,omitempty" jsonschema:"as of ask"`
}

func (s *Server) addTools(to *sdk.Server) {
	no, yes := false, true
	addTool(s, to, &sdk.Tool{
		Name: "ask", Title: "Ask Cortex",
		Description: "Asks Cortex for something. Cortex gives it to the agents that fit, and answers from their results. Returns the answer, a question to the user, or that it still works.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: &yes},
	}, s.ask)
	addTool(s, to, &sdk.Tool{
		Name: "ask_agent", Title: "Ask an agent",
		Description: "Gives work to one agent, without a model that decides: words, or what its skill's input_schema asks for. Returns what ask does.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: &yes},
	}, s.askAgent)
	addTool(s, to, &sdk.Tool{
		Name: "list_agents", Title: "List agents",
		Description: "Lists the agents that can be given work now, with their skills. When a single agent fits, its skills come with their input_schema.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no},
	}, s.listAgents)
	addTool(s, to, &sdk.Tool{
		Name: "get_turn", Title: "Get a turn",
		Description: "Waits for the answer to what was asked before, and returns it, or how far the work is.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no},
	}, s.getTurn)
	addTool(s, to, &sdk.Tool{
		Name: "cancel", Title: "Cancel a turn",
		Description: "Stops a turn, or one task of it. What agents have done already stays done.",
		Annotations: &sdk.ToolAnnotations{IdempotentHint: true, OpenWorldHint: &no},
	}, s.cancel)
	addTool(s, to, &sdk.Tool{
		Name: "reply", Title: "Reply to a question",
		Description: "Answers the question of a turn that is input_required. The reply is the user's: ask them, and do not answer in their place.",
		Annotations: &sdk.ToolAnnotations{OpenWorldHint: &yes},
	}, s.reply)
}

func (s *Server) ask(ctx context.Context, req *sdk.CallToolRequest, in askInput) (*sdk.CallToolResult, *answer, error) {
	return s.begin(ctx, req, &client.Message{ContextID: in.ContextID, Parts: a2a.ContentParts{a2a.NewTextPart(in.Text)}}, in.Key, in.WaitSeconds)
}

func (s *Server) askAgent(ctx context.Context, req *sdk.CallToolRequest, in askAgentInput) (*sdk.CallToolResult, *answer, error) {
	var raw struct { // with its numbers as they are
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &raw); err != nil {
		return nil, nil, err
	}
	to := &transport.Direct{Agent: in.Agent, Skill: in.Skill, Input: raw.Input}
	text := cmp.Or(in.Text, string(raw.Input))
	return s.begin(ctx, req, &client.Message{ContextID: in.ContextID, Parts: a2a.ContentParts{a2a.NewTextPart(text)}, To: to}, in.Key, in.WaitSeconds)
}

// begin begins a turn with m, unless the same call has begun it before.
func (s *Server) begin(ctx context.Context, req *sdk.CallToolRequest, m *client.Message, key string, wait int) (*sdk.CallToolResult, *answer, error) {
	k := s.talk(req, wait)
	c := k.c
	if req.Params.RequestState != "" {
		return k.goOn(ctx)
	}
	if len(key) > transport.MaxID {
		return nil, nil, fmt.Errorf("key: has %d bytes, at most %d are allowed", len(key), transport.MaxID)
	}
	if canElicit(req) { // a yes is the user's, who is asked again
		m.ReplyTo = transport.ReplyToNone
	}
	fresh := m.ContextID == ""
	words := []string{c.user(), req.Params.Name, m.ContextID, transport.Text(m.Parts)}
	if m.To != nil {
		words = append(words, m.To.Agent, m.To.Skill, string(m.To.Input))
	}
	ids := func(word string) (contextID, messageID string) { // which follow from word, if there is one
		if contextID = m.ContextID; word == "" {
			if contextID == "" {
				contextID = c.NextID()
			}
			return contextID, c.NextID()
		}
		named := append(words, word)
		if contextID == "" {
			contextID = digest(append(named, "conversation")...)
		}
		return contextID, digest(named...)
	}
	if key != "" {
		m.ContextID, m.ID = ids("key " + key)
	} else {
		m.ContextID, m.ID = s.calls.begin(c.user(), digest(append(words, c.scope)...), c.Clock(), func() (string, string) { return ids(callID(req.Extra)) })
	}
	if fresh {
		m.Metadata = map[string]any{transport.MetaOwn: true}
	}
	k.first = client.Turn{ContextID: m.ContextID, From: c.user(), MessageID: m.ID}
	return k.run(ctx, m, k.first)
}

func (s *Server) getTurn(ctx context.Context, req *sdk.CallToolRequest, in getTurnInput) (*sdk.CallToolResult, *answer, error) {
	k := s.talk(req, in.WaitSeconds)
	if req.Params.RequestState != "" {
		return k.goOn(ctx)
	}
	var err error
	if k.first, err = k.c.turnOf(in.TurnID); err != nil {
		return nil, nil, err
	}
	return k.run(ctx, nil, k.first)
}

func (s *Server) reply(ctx context.Context, req *sdk.CallToolRequest, in replyInput) (*sdk.CallToolResult, *answer, error) {
	k := s.talk(req, in.WaitSeconds)
	if req.Params.RequestState != "" {
		return k.goOn(ctx)
	}
	var err error
	if k.first, err = k.c.turnOf(in.TurnID); err != nil {
		return nil, nil, err
	}
	return k.reply(ctx, k.first, func(held bool) (string, bool) {
		return in.Text, !held || !canElicit(req) // a yes is the user's, who is asked
	})
}

// cancelWait is how long cancel waits for the end of the turn.
const cancelWait = 5 * time.Second

func (s *Server) cancel(ctx context.Context, req *sdk.CallToolRequest, in cancelInput) (*sdk.CallToolResult, *answer, error) {
	k := s.talk(req, 0)
	k.wait, k.quiet = min(cancelWait, k.wait), true
	var err error
	if k.first, err = k.c.turnOf(in.TurnID); err != nil {
		return nil, nil, err
	}
	x := transport.Cancel{Turn: k.c.ID(k.first), Reason: "by the user"}
	if in.TaskID != "" {
		conv, err := s.load(ctx, k.c, k.first.ContextID)
		if err != nil {
			return nil, nil, err
		}
		if conv == nil || conv.Tasks[a2a.TaskID(in.TaskID)] == nil || conv.Tasks[a2a.TaskID(in.TaskID)].Turn != x.Turn {
			return nil, nil, fmt.Errorf("task_id: the turn %.300q has no task %.100q", in.TurnID, in.TaskID)
		}
		x = transport.Cancel{TaskID: a2a.TaskID(in.TaskID), Reason: x.Reason}
	}
	bounded, end := context.WithTimeout(ctx, loadTime)
	defer end()
	if err := k.c.Cancel(bounded, k.first.ContextID, x); err != nil {
		return nil, nil, err
	}
	return k.run(ctx, nil, k.first)
}

func errNoTurn(handle string) error {
	return fmt.Errorf("turn_id: there is no turn %.300q of yours", handle)
}

// errUnsent is for a message that Cortex did not get in time.
var errUnsent = errors.New("there is no connection to Cortex now, and it was not asked: make the same call again later")
