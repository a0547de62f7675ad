package persona

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// effect says what a call may do.
type effect int

const (
	readOnly   effect = iota // nothing: calls are made at the same time, and again
	repeatable               // something that doing it again does not change
	writes                   // something that must not be done twice
)

// tool is what a model may call.
type tool struct {
	name, about string
	schema      json.RawMessage
	check       *agentcard.Schema // nil: the tool checks its input itself
	effect      effect
	confirm     bool // the user has to consent first
	asks        bool // it is a question to the user, and has no call
	call        func(ctx context.Context, w *work, raw json.RawMessage) (string, error)
}

// input has the fields of the inputs of the tools that are not of a server.
type input struct {
	Path      string `json:"path"`
	Pattern   string `json:"pattern"`
	Content   string `json:"content"`
	Old       string `json:"old_string"`
	New       string `json:"new_string"`
	All       bool   `json:"replace_all"`
	Name      string `json:"name"`
	Question  string `json:"question"`
	Task      string `json:"task"`
	Agent     string `json:"agent"`
	Skill     string `json:"skill"`
	Key       string `json:"key"`
	Value     string `json:"value"`
	Minutes   int    `json:"minutes"`
	Words     string `json:"words"`
	Result    string `json:"result"`
	From      int    `json:"from"`
	Lines     int    `json:"lines"`
	Find      string `json:"find"`
	Structure any    `json:"input"`
}

// newTool returns a tool whose schema is one of this package.
func newTool(name, about string, of effect, schema string, f func(context.Context, *work, *input) (string, error)) *tool {
	check, err := agentcard.Compile(json.RawMessage(schema))
	if err != nil {
		panic(fmt.Sprintf("persona: the schema of %s: %v", name, err))
	}
	return &tool{
		name: name, about: about, schema: json.RawMessage(schema), check: check, effect: of,
		call: func(ctx context.Context, w *work, raw json.RawMessage) (string, error) {
			in := &input{}
			if err := json.Unmarshal(raw, in); err != nil {
				return "", err
			}
			return f(ctx, w, in)
		},
	}
}

// box returns the tools that the persona has now, sorted by name, so that a prompt begins with the same bytes as the one before.
func (a *Agent) box() []*tool {
	all := a.fileTools()
	all = append(all, a.skillTools()...)
	all = append(all, a.memoryTools()...)
	all = append(all, delegateTool(a.p), resultTool(), openTool(), newAsk())
	for _, s := range a.o.Servers {
		for _, t := range s.Tools() {
			all = append(all, a.serverTool(s, &t))
		}
	}
	kept := all[:0]
	for _, t := range all {
		if a.p.Tools.May(t.name) && (!a.p.ReadOnly || t.effect == readOnly || t.name == toolRemember) {
			kept = append(kept, t)
		}
	}
	sort.SliceStable(kept, func(i, j int) bool { return kept[i].name < kept[j].name })
	return kept
}

// serverTool makes a tool of an MCP server's.
func (a *Agent) serverTool(s *Server, of *mcp.Tool) *tool {
	t := &tool{name: "mcp__" + s.Name + "__" + of.Name, about: of.Description, schema: of.Input, effect: writes, confirm: of.Doubted || of.Destructive && !a.p.Unconfirmed}
	switch {
	case of.ReadOnly:
		t.effect = readOnly
	case of.Repeatable:
		t.effect = repeatable
	}
	if of.Input != nil {
		t.check, _ = agentcard.Compile(of.Input) // if it does not compile, only the server checks the input
	}
	name := of.Name
	t.call = func(ctx context.Context, w *work, raw json.RawMessage) (string, error) {
		return s.Call(ctx, w.task, name, raw)
	}
	return t
}

// Server is an MCP server whose tools a persona has.
type Server struct {
	Name string // as the persona's file names it
	*mcp.Agent
}

func newAsk() *tool {
	t := newTool(toolAsk, "Ask the user a question, when the task cannot be done without the answer. Call nothing else in the same reply.", readOnly,
		`{"type":"object","properties":{"question":{"type":"string","minLength":1}},"required":["question"],"additionalProperties":false}`,
		func(context.Context, *work, *input) (string, error) { return "", errors.New("it is not called") })
	t.asks = true
	return t
}

// openTool returns the tool that reads the files that came with the task.
func openTool() *tool {
	return newTool(toolOpen, "Read a text file that came with the task.", readOnly,
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`,
		func(ctx context.Context, w *work, in *input) (string, error) {
			for _, f := range w.task.Files() {
				if f.Name != in.Name {
					continue
				}
				b, err := f.Bytes(ctx, maxRead)
				switch {
				case err != nil:
					return "", err
				case !utf8.Valid(b):
					return "", fmt.Errorf("%s is no text file", in.Name)
				}
				return string(b), nil
			}
			return "", fmt.Errorf("no file %q came with the task", in.Name)
		})
}

// delegateTool returns the tool that gives work to other agents.
func delegateTool(p *Persona) *tool {
	may := p.Agents
	if may == nil {
		may = p.Tools.Agents()
	}
	about := "Give work to another agent and get its result. The agent sees nothing but the task, so say all that it has to know. Without an agent, the best one is chosen."
	if may != nil {
		about = "Give work to another agent and get its result. The agent sees nothing but the task, so say all that it has to know. The agent is one of: " + strings.Join(may, ", ") + "."
	}
	return newTool(toolDelegate, about, repeatable, // a request that is made again gets the first one's answer
		`{"type":"object","properties":{"task":{"type":"string","minLength":1},"agent":{"type":"string"},"skill":{"type":"string"},`+
			`"input":{"type":"object","description":"structured input, for a skill that takes one"}},"required":["task"],"additionalProperties":false}`,
		func(ctx context.Context, w *work, in *input) (string, error) {
			if may != nil && !contains(may, in.Agent) {
				return "", fmt.Errorf("work may be given to %s only, and the agent has to be named", strings.Join(may, ", "))
			}
			answer, err := w.task.Ask(ctx, agents.Request{Text: in.Task, Agent: in.Agent, Skill: in.Skill, Input: in.Structure})
			if err != nil {
				return "", err
			}
			text := textOf(answer.Parts)
			if transport.MetaString(answer, transport.MetaDecision) == transport.DecisionClarify {
				text = "It is not done: this is a question that has to be answered first. Delegate the work again, with the answer in the task; what only the user knows, ask the user.\n" + text
			}
			return text, nil
		})
}

func contains(all []string, name string) bool {
	return slices.ContainsFunc(all, func(one string) bool { return strings.EqualFold(one, name) })
}

// describe returns a tool for the prompt.
func (t *tool) describe() string {
	notes := ""
	if t.confirm {
		notes = " The user is asked for consent first."
	}
	schema := cmp.Or(string(t.schema), `{"type":"object"}`)
	var short bytes.Buffer
	if json.Compact(&short, []byte(schema)) == nil {
		schema = short.String()
	}
	return fmt.Sprintf("%s: %s%s\n  input: %s", t.name, prompt.InResult(prompt.Clean(t.about, 1000)), notes, prompt.InResult(prompt.Clean(shorten.Marked(schema, 4000, "…"), 4001)))
}
