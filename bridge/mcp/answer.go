package mcp

import (
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// States of an answer.
const (
	working       = "working"
	inputRequired = "input_required"
	completed     = "completed"
	failed        = "failed"
	unknown       = "unknown" // not begun yet, or no turn of the caller's
)

// Bounds of an answer; the whole is a resource.
const (
	maxAnswer = 64 << 10 // bytes
	maxTasks  = 32
	maxPart   = 500 // characters of a task's result, while others are at work
)

// answer is what the tools return of a turn.
type answer struct {
	State     string   `json:"state" jsonschema:"completed, failed, working (call get_turn), input_required (ask the user, then call reply), or unknown (there is no such turn, or not yet)"`
	TurnID    string   `json:"turn_id"`
	ContextID string   `json:"context_id" jsonschema:"the conversation, to go on with by ask"`
	Answer    string   `json:"answer,omitempty"`
	Question  string   `json:"question,omitempty" jsonschema:"what the user is asked"`
	Tasks     []task   `json:"tasks,omitempty" jsonschema:"what agents were given"`
	Files     []linked `json:"files,omitempty" jsonschema:"files of the answer; read them as resources"`
	CostUSD   float64  `json:"cost_usd,omitempty"`

	held bool // the question is for a yes
	sent bool // the call has sent the message that begins the turn
}

type task struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Skill  string `json:"skill,omitempty"`
	State  string `json:"state"`
	Result string `json:"result,omitempty" jsonschema:"while others are at work: the beginning of what it gave back"`
}

type linked struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Size int64  `json:"size,omitempty"`
	URI  string `json:"uri"`
}

// answerOf describes a turn. said is its answer, nil while there is none; conv is nil when it is not known.
func (k *talk) answerOf(conv *conversation.Conversation, t client.Turn, said *a2a.Message) *answer {
	a := &answer{State: working, TurnID: handleOf(t), ContextID: t.ContextID}
	var turn *conversation.Turn
	if conv != nil {
		turn = conv.Turn(k.c.ID(t))
	}
	if turn == nil && said == nil {
		a.State = unknown
	}
	if turn != nil {
		for _, w := range conv.TasksOf(turn) {
			if len(a.Tasks) == maxTasks {
				break
			}
			of := task{ID: string(w.ID), Agent: w.Agent, Skill: w.Skill, State: kit.StateName(w.State())}
			if said == nil {
				of.Result = prompt.Clean(w.Result, maxPart)
			}
			a.Tasks = append(a.Tasks, of)
		}
		a.CostUSD = turn.Usage.Cost
	}
	if said == nil {
		return a
	}
	a.State, a.Answer = completed, transport.Text(said.Parts)
	if is, _ := said.Metadata[transport.MetaFailed].(bool); is {
		a.State = failed
	}
	for i, p := range transport.FilesOf(said.Parts) {
		name, kind, size, _ := transport.FileOf(p)
		a.Files = append(a.Files, linked{
			Name: prompt.Clean(transport.FileName(name, kind, i+1), transport.MaxFileName), Type: prompt.Clean(kind, transport.MaxFileName),
			Size: size, URI: fileURI(t, i+1),
		})
	}
	if len(a.Answer) > maxAnswer {
		a.Files = append(a.Files, linked{Name: "answer.txt", Type: "text/plain", Size: int64(len(a.Answer)), URI: fileURI(t, 0)})
		a.Answer = shorten.Marked(a.Answer, maxAnswer, "… (the whole is in answer.txt)")
	}
	if conv == nil {
		return a
	}
	if w := conv.WaitsFor(k.c.ID(t)); w != nil {
		a.State, a.held = inputRequired, w.Phase == conversation.Held
		a.Question, a.Answer = a.Answer, ""
	}
	return a
}

// result returns the answer for hosts that show their models only texts and links.
func (a *answer) result() *sdk.CallToolResult {
	text := a.Answer
	switch a.State {
	case working:
		var at []string
		for _, t := range a.Tasks {
			at = append(at, t.Agent+": "+t.State)
		}
		text = "Cortex is still at work"
		if len(at) > 0 {
			text += " (" + strings.Join(at, ", ") + ")"
		}
		text += fmt.Sprintf(". Call get_turn with turn_id %s for the answer; do not ask again.", a.TurnID)
	case unknown:
		text = fmt.Sprintf("Cortex knows no turn %s of yours, or not yet. If it was asked just now, call get_turn again.", a.TurnID)
		if a.sent {
			text = fmt.Sprintf("Cortex has not begun the turn %s yet. Call get_turn for it, or make the same call again: it is not asked twice.", a.TurnID)
		}
	case inputRequired:
		text = fmt.Sprintf("%s\n\nThat is for the user: ask them, then call reply with turn_id %s and what they say.", a.Question, a.TurnID)
	}
	r := &sdk.CallToolResult{IsError: a.State == failed, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	for _, f := range a.Files {
		link := &sdk.ResourceLink{URI: f.URI, Name: f.Name, MIMEType: f.Type}
		if f.Size > 0 {
			link.Size = &f.Size
		}
		r.Content = append(r.Content, link)
	}
	return r
}
