package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/pin"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what a server says about itself.
const (
	maxTools        = transport.MaxSkills
	maxDescription  = 4 << 10  // bytes, of a tool
	maxSchema       = 64 << 10 // bytes; a schema over agentcard.MaxSchema is not in the card
	maxInstructions = 2 << 10
	maxSaid         = 64 << 10 // bytes, of what a tool says of itself in words; one that says more is left out
	maxTold         = 10       // tools of which the log says that they are left out, of a list
)

// tool is a tool of the server.
type tool struct {
	*sdk.Tool
	input, output json.RawMessage   // schemas; nil: none
	check         *agentcard.Schema // of the input; nil: anything
	text          string            // the argument that gets a task's text; "": none
	wrapped       string            // the field of the output that is nothing but a text; "": the output is data
}

// names matches valid tool names.
var names = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

// agentID returns the id of a server's agent.
func agentID(name string) string {
	if id, err := transport.AgentID("mcp_" + name); err == nil {
		return id
	}
	return "mcp_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

// newTool checks a tool and marshals its schemas.
func newTool(of *sdk.Tool) (*tool, error) {
	if !names.MatchString(of.Name) {
		return nil, fmt.Errorf("its name is %.80q", of.Name)
	}
	if n := len(of.Title) + len(of.Description); n > maxSaid {
		return nil, fmt.Errorf("it says %d bytes of itself: at most %d are allowed", n, maxSaid)
	}
	if of.Annotations != nil && len(of.Annotations.Title) > maxSaid {
		return nil, fmt.Errorf("its title has %d bytes: at most %d are allowed", len(of.Annotations.Title), maxSaid)
	}
	t := &tool{Tool: &sdk.Tool{Name: of.Name, Title: of.Title, Description: of.Description, Annotations: of.Annotations}}
	for _, s := range []struct {
		what string
		is   any
		to   *json.RawMessage
	}{{"input", of.InputSchema, &t.input}, {"output", of.OutputSchema, &t.output}} {
		if s.is == nil {
			continue
		}
		b, err := json.Marshal(s.is)
		if err != nil {
			return nil, fmt.Errorf("its %s schema: %w", s.what, err)
		}
		if len(b) > maxSchema {
			return nil, fmt.Errorf("its %s schema has %d bytes: at most %d are allowed", s.what, len(b), maxSchema)
		}
		if *s.to = b; s.what == "input" {
			t.check, _ = agentcard.Compile(b) // if it does not compile, for example because of a JavaScript pattern, only the server checks the input
		}
	}
	t.text, t.wrapped = onlyText(t.input), wrappedText(t.output)
	return t, nil
}

// onlyText returns the name of the only required property if it is a string, else "".
func onlyText(schema json.RawMessage) string {
	var s struct {
		Required   []string                                  `json:"required"`
		Properties map[string]struct{ Type json.RawMessage } `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Required) != 1 || string(s.Properties[s.Required[0]].Type) != `"string"` {
		return ""
	}
	return s.Required[0]
}

// wrappedText returns the name of the only property of an output schema if it is a string, else "". Structured content has to be an object, so that
// servers and SDKs wrap a text, mostly as "content" or "result".
func wrappedText(schema json.RawMessage) string {
	var s struct {
		Properties map[string]struct{ Type json.RawMessage } `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Properties) != 1 {
		return ""
	}
	for name, p := range s.Properties {
		if string(p.Type) == `"string"` {
			return name
		}
	}
	return ""
}

// repeatable reports whether the call may be repeated. Like all annotations this is a hint, but whoever runs a server trusts it with more than
// that.
func (t *tool) repeatable() bool {
	h := t.Annotations
	return h != nil && (h.ReadOnlyHint || h.IdempotentHint)
}

// destructive reports whether a call may destroy something, which is MCP's default for tools without annotations.
func (t *tool) destructive() bool {
	h := t.Annotations
	return h == nil || !h.ReadOnlyHint && (h.DestructiveHint == nil || *h.DestructiveHint)
}

func (t *tool) title() string {
	title := t.Title
	if title == "" && t.Annotations != nil {
		title = t.Annotations.Title
	}
	return cmp.Or(shorten.To(title, 256), t.Name)
}

// list lists the server's tools and makes the card.
func (a *Agent) list(ctx context.Context, s *session) error {
	var list []*tool
	by := map[string]*tool{}
	left := 0
	more, err := s.tools(ctx, func(of *sdk.Tool) bool {
		if by[of.Name] != nil {
			return true
		}
		t, err := newTool(of)
		if err != nil {
			if left++; left <= maxTold {
				a.log.Warn("tool left out", "tool", shorten.To(of.Name, 128), "err", err)
			}
			return true
		}
		if len(list) == maxTools {
			return false
		}
		list, by[t.Name] = append(list, t), t
		return true
	})
	if err != nil {
		return err
	}
	if left > maxTold {
		a.log.Warn("more tools left out", "tools", left-maxTold)
	}
	if more {
		a.log.Warn("server has more tools than a card: the others are left out", "tools", maxTools)
	}
	var things []pin.Thing
	for _, t := range list {
		things = append(things, pin.Of(t.Name, t.Name, t.Title, t.Description, t.input, t.output, t.Annotations))
	}
	changed, strange, err := a.pins.Compare(things, time.Now())
	if err != nil {
		a.log.Warn("tools are not remembered, and need a yes", "tools", len(strange), "err", err)
	}
	for _, name := range changed {
		if !a.told[name] { // a server may change it again and again
			a.log.Warn("tool is not what it was, and needs a yes: what it says of itself has changed; its line in the file is what it was", "tool", name, "file", a.pins.Path)
		}
		a.told[name] = true // as many as there are lines in the file
	}
	doubted := append(changed, strange...)
	card := a.newCard(s.InitializeResult(), list, doubted)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tools, a.doubted = by, doubted
	if !reflect.DeepEqual(card, a.card) {
		a.card = card
	}
	return nil
}

// newCard returns the server's card. If it exceeds the limits of cards, it leaves out what a model needs least.
func (a *Agent) newCard(is *sdk.InitializeResult, tools []*tool, changed []string) *a2a.AgentCard {
	var card *a2a.AgentCard
	for _, fit := range []struct{ tools, description, input, output int }{
		{maxTools, maxDescription, agentcard.MaxSchema, agentcard.MaxSchema},
		{maxTools, maxDescription, agentcard.MaxSchema, 0},
		{maxTools, 1 << 10, agentcard.MaxSchema, 0},
		{maxTools, 256, 4 << 10, 0},
		{maxTools, 200, 1 << 10, 0},
		{maxTools, 100, 0, 0},
		{maxTools / 4, 100, 0, 0},
	} {
		card = a.cardOf(is, tools[:min(len(tools), fit.tools)], changed, fit.description, fit.input, fit.output)
		if transport.ValidateCard(card) == nil {
			break
		}
		a.log.Debug("card is too large, and says less", "tools", fit.tools)
	}
	return card
}

func (a *Agent) cardOf(is *sdk.InitializeResult, tools []*tool, changed []string, description, input, output int) *a2a.AgentCard {
	info := cmp.Or(is.ServerInfo, &sdk.Implementation{})
	about := cmp.Or(is.Instructions, info.Description, info.Title, "The tools of the MCP server "+a.server.Name)
	card := &a2a.AgentCard{
		Name: a.ID(), Description: a.said(about, maxInstructions), Version: cmp.Or(shorten.To(info.Version, 64), "1.0.0"),
		SupportedInterfaces: []*a2a.AgentInterface{}, DefaultInputModes: []string{"application/json", "text/plain"},
		DefaultOutputModes: []string{"text/plain", "application/json"}, Skills: []a2a.AgentSkill{},
	}
	spec := &agentcard.Spec{Tags: []string{"mcp"}, Abilities: map[string]agentcard.Ability{}}
	for _, t := range tools {
		k := a2a.AgentSkill{
			ID: t.Name, Name: a.said(t.title(), 256), Description: a.said(cmp.Or(t.Description, t.title()), description), Tags: []string{},
			InputModes: []string{"application/json"}, OutputModes: []string{"text/plain"},
		}
		if t.text != "" || t.input == nil {
			k.InputModes = append(k.InputModes, "text/plain")
		}
		ability := agentcard.Ability{Confirm: t.destructive(), Once: !t.repeatable()}
		if len(t.input) <= input {
			ability.InputSchema = t.input
		}
		if t.output != nil && t.wrapped == "" { // a wrapped text comes as text, which would not fit the schema
			k.OutputModes = append(k.OutputModes, "application/json")
			if len(t.output) <= output {
				ability.OutputSchema = t.output
			}
		}
		for _, name := range changed {
			ability.Confirm = ability.Confirm || name == t.Name
		}
		card.Skills = append(card.Skills, k)
		spec.Abilities[t.Name] = ability
	}
	return agentcard.Attach(card, spec)
}

// said returns text from the server in at most n bytes, without secrets.
func (a *Agent) said(text string, n int) string {
	return shorten.Marked(a.server.hide(strings.ToValidUTF8(text, "")), n, "…")
}

// tool returns the tool with a name; "" is the only one of a server with one.
func (a *Agent) tool(name string) (*tool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tools[name]; t != nil {
		return t, nil
	}
	if name == "" && len(a.tools) == 1 {
		for _, t := range a.tools {
			return t, nil
		}
	}
	var all []string
	for _, k := range a.card.Skills {
		all = append(all, k.ID)
	}
	if name == "" {
		return nil, fmt.Errorf("it has several tools, and the task names none of them: %s", shorten.Marked(strings.Join(all, ", "), 1000, "…"))
	}
	return nil, fmt.Errorf("there is no tool %.128q: the tools are %s", name, shorten.Marked(strings.Join(all, ", "), 1000, "…"))
}
