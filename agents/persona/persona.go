package persona

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of a file.
const (
	maxFile        = 1 << 20 // bytes
	maxFiles       = 256     // personas of a folder
	maxDescription = 1000    // bytes on the card
	maxExamples    = 8
)

// Persona is what a file says.
type Persona struct {
	File        string // its name, for messages
	Name        string
	Description string
	Body        string   // the instructions
	Models      []string // names of models, to be tried in order; the caller decides what they mean
	Tools       Choice
	Servers     []string                   // names of MCP servers that are configured elsewhere
	Inline      map[string]json.RawMessage // MCP servers with their configuration
	Agents      []string                   // the agents that may be given work; nil: any
	Skills      []string                   // names of skills whose text is always shown
	ReadOnly    bool                       // only tools that change nothing
	EditFreely  bool                       // files may be changed without a yes
	Memory      bool
	Unconfirmed bool // no call needs a yes, but those of tools that are not what they were
	Limits      Limits
	Reflection  *evaluate.Reflection
	Evaluators  []evaluate.Evaluator
	Card        *a2a.AgentCard

	// Ignored says in one line each which parts of the file mean nothing here.
	Ignored []string
}

// Limits bound the work on a task.
type Limits struct {
	Steps   int           // questions to the model
	Tokens  int           // read and written
	Cost    float64       // 0: unlimited
	Timeout time.Duration // without waiting for the user
}

// The default limits.
const (
	defaultSteps   = 12
	defaultTokens  = 60_000
	defaultTimeout = 10 * time.Minute
)

// ReadAll reads the file that path names, or the files of a folder (*.md). In a folder, files without front matter are left out. The errors name the
// files.
func ReadAll(ctx context.Context, path string) ([]*Persona, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		p, err := Read(ctx, path)
		if err != nil {
			return nil, err
		}
		return []*Persona{p}, nil
	}
	entries, err := os.ReadDir(path) // filepath.Glob would hide errors, and take the name of the folder for a pattern
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".md" {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("%s has %d files: at most %d are allowed", path, len(names), maxFiles)
	}
	var all []*Persona
	by := map[string]string{}
	for _, name := range names {
		p, err := Read(ctx, name)
		switch {
		case errors.Is(err, errNoFront):
			continue
		case err != nil:
			return nil, err
		}
		id, err := transport.AgentID(p.Card.Name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case by[id] != "":
			return nil, fmt.Errorf("%s and %s are the same agent, %s: give one of them another name", by[id], p.File, id)
		}
		by[id] = p.File
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no persona: a Markdown file (*.md) that begins with front matter", path)
	}
	return all, nil
}

// errNoFront is wrapped by the error of a file without front matter.
var errNoFront = errors.New("it has no front matter: a first line with three dashes, `name:` and `description:`, and three dashes again")

// Read reads a persona from a Markdown file with front matter, in the format of Claude Code's subagents (.claude/agents/NAME.md) or VS Code's custom
// agents (NAME.agent.md); the two are told apart by nothing. The keys of Cortex are below the key cortex; an unknown one there is an error, while all
// others are in Ignored.
func Read(ctx context.Context, path string) (*Persona, error) {
	b, err := document.Read(ctx, path, maxFile)
	if err != nil {
		return nil, err
	}
	p, err := parse(filepath.Base(path), b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func parse(file string, b []byte) (*Persona, error) {
	front, body, err := split(b)
	if err != nil {
		return nil, err
	}
	if front == nil {
		return nil, errNoFront
	}
	all, loose, err := fields(front)
	if err != nil {
		return nil, err
	}
	p := &Persona{File: file, Body: body, Limits: Limits{Steps: defaultSteps, Tokens: defaultTokens, Timeout: defaultTimeout}}
	if loose {
		p.ignore("its front matter is no YAML, and was read line by line")
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := p.set(key, all[key]); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if p.Name == "" { // VS Code: the file's name
		p.Name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(file, ".md"), ".agent"), ".chatmode")
	}
	if p.Body == "" {
		return nil, errors.New("it has no instructions: they are the text behind the front matter")
	}
	own := &own{}
	if raw := all[ownKey]; len(raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(own); err != nil {
			return nil, fmt.Errorf("cortex: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	if err := own.apply(p); err != nil {
		return nil, fmt.Errorf("cortex: %w", err)
	}
	return p, p.makeCard(own)
}

func (p *Persona) ignore(format string, args ...any) {
	p.Ignored = append(p.Ignored, shorten.Line(fmt.Sprintf(format, args...), 300))
}

// set reads a key of the front matter.
func (p *Persona) set(key string, raw json.RawMessage) (err error) {
	text := func(to *string) error {
		if string(raw) == "null" {
			return nil
		}
		if json.Unmarshal(raw, to) != nil {
			return errors.New("want a text")
		}
		*to = strings.TrimSpace(*to)
		return nil
	}
	switch key {
	case ownKey:
	case "name":
		return text(&p.Name)
	case "description":
		return text(&p.Description)
	case "tools", "allowed-tools", "allowedTools":
		p.Tools.Allowed, err = words(raw)
	case "disallowedTools":
		p.Tools.Denied, err = words(raw)
	case "model":
		p.Models, err = words(raw)
		p.Models = slices.DeleteFunc(p.Models, func(m string) bool { return m == "inherit" })
	case "maxTurns":
		if json.Unmarshal(numberOf(raw), &p.Limits.Steps) != nil || p.Limits.Steps < 1 || p.Limits.Steps > maxSteps {
			return fmt.Errorf("want a number from 1 to %d", maxSteps)
		}
	case "skills":
		p.Skills, err = words(raw)
	case "agents":
		if p.Agents, err = words(raw); slices.Contains(p.Agents, "*") {
			p.Agents = nil
		}
	case "mcpServers", "mcp-servers":
		return p.servers(raw)
	case "permissionMode":
		var mode string
		if err := text(&mode); err != nil {
			return err
		}
		switch mode {
		case "plan":
			p.ReadOnly = true
		case "acceptEdits":
			p.EditFreely = true
		case "default", "":
		default: // a file of others does not turn the user's consent off
			p.ignore("permissionMode: %s (what may destroy something asks first; cortex: {confirm: false} turns that off)", mode)
		}
	default:
		p.ignore("%s: %s", key, shorten.Line(string(raw), 60))
	}
	return err
}

// numberOf returns a number that a loose front matter gives as text.
func numberOf(raw json.RawMessage) []byte { return bytes.Trim(raw, `"`) }

// servers reads MCP servers: names, or names with configurations.
func (p *Persona) servers(raw json.RawMessage) error {
	add := func(of map[string]json.RawMessage) {
		for name, config := range of {
			if p.Inline == nil {
				p.Inline = map[string]json.RawMessage{}
			}
			p.Inline[name] = config
		}
	}
	var byName map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case string(raw) == "null":
	case json.Unmarshal(raw, &byName) == nil:
		add(byName)
	case json.Unmarshal(raw, &list) == nil:
		for _, one := range list {
			var name string
			var config map[string]json.RawMessage
			switch {
			case json.Unmarshal(one, &name) == nil:
				p.Servers = append(p.Servers, name)
			case json.Unmarshal(one, &config) == nil:
				add(config)
			default:
				return errors.New("want names of servers, or servers under their names")
			}
		}
	default:
		names, err := words(raw)
		if err != nil {
			return errors.New("want names of servers, or servers under their names")
		}
		p.Servers = names
	}
	return nil
}

// own has the keys of Cortex.
type own struct {
	Skills     []map[string]any     `json:"skills"`
	MaxSteps   int                  `json:"max_steps"`
	MaxTokens  int                  `json:"max_tokens"`
	MaxCost    float64              `json:"max_cost"`
	Timeout    string               `json:"timeout"`
	Memory     bool                 `json:"memory"`
	Confirm    *bool                `json:"confirm"`
	Reflection *evaluate.Reflection `json:"reflection"`
	Evaluators json.RawMessage      `json:"evaluators"`
}

// maxSteps bounds a limit of steps.
const maxSteps = 1000

func (o *own) apply(p *Persona) (err error) {
	switch {
	case o.MaxSteps < 0 || o.MaxSteps > maxSteps:
		return fmt.Errorf("max_steps: want a number from 1 to %d", maxSteps)
	case o.MaxTokens < 0 || o.MaxCost < 0:
		return errors.New("max_tokens and max_cost must not be negative")
	}
	p.Limits.Steps, p.Limits.Tokens, p.Limits.Cost = cmp.Or(o.MaxSteps, p.Limits.Steps), cmp.Or(o.MaxTokens, p.Limits.Tokens), o.MaxCost
	if o.Timeout != "" {
		if p.Limits.Timeout, err = time.ParseDuration(o.Timeout); err != nil || p.Limits.Timeout <= 0 {
			return fmt.Errorf("timeout %q: want a time such as 5m", shorten.Line(o.Timeout, 40))
		}
	}
	p.Memory, p.Unconfirmed = o.Memory, o.Confirm != nil && !*o.Confirm
	if p.Reflection = o.Reflection; p.Reflection != nil {
		if err := p.Reflection.Check(); err != nil {
			return fmt.Errorf("reflection: %w", err)
		}
		if m := p.Reflection.Model; m != "" {
			p.ignore("cortex: reflection: model: %s (the model that does the tasks reviews its answers)", m)
		}
	}
	if p.Evaluators, err = evaluate.Parse(o.Evaluators); err != nil {
		return fmt.Errorf("evaluators: %w", err)
	}
	return nil
}

// example matches a user's words in the examples that descriptions of Claude Code's subagents have.
var example = regexp.MustCompile(`(?i)\buser:\s*["'“]([^"”\n]{3,300})["'”]`)

// makeCard makes the card of the persona's agent.
func (p *Persona) makeCard(o *own) error {
	about, examples := p.Description, []string{}
	for _, m := range example.FindAllStringSubmatch(about, maxExamples) {
		examples = append(examples, strings.TrimSpace(m[1]))
	}
	for _, begin := range []string{"<example>", "Examples:", "Example:"} {
		about, _, _ = strings.Cut(about, begin)
	}
	about = shorten.To(strings.Join(strings.Fields(about), " "), maxDescription)
	if about == "" {
		return errors.New("it has no description: say in it when the agent is to be used")
	}
	skills := o.Skills
	if len(skills) == 0 {
		skills = []map[string]any{{"id": "default", "name": p.Name, "description": about, "examples": examples}}
	}
	b, err := json.Marshal(map[string]any{"name": p.Name, "description": about, "skills": skills})
	if err != nil {
		return err
	}
	card, ignored, err := agents.ReadCard("card", bytes.NewReader(b))
	if err != nil {
		return err
	}
	p.Card = card
	for _, line := range ignored {
		p.ignore("%s", line)
	}
	return nil
}
