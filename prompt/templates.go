package prompt

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

//go:embed templates/*.tmpl
var embedded embed.FS

// names are the names of the templates, all of which can be replaced.
var names = []string{
	"agent.tmpl", "earlier.tmpl", "facts.tmpl", "found.tmpl", "read.tmpl", "results.tmpl", "summary.tmpl", "summary_system.tmpl", "system.tmpl", "update.tmpl", "user.tmpl",
}

// maxTemplate bounds a template file, in bytes.
const maxTemplate = 256 << 10

// Templates renders prompts. It is safe for concurrent use.
type Templates struct {
	set   *template.Template
	lists lists
}

// New returns the embedded templates, replaced by those in folder dir with the same names; with dir "" none is replaced. It tests every template; the
// error for one that fails names the file and the line.
func New(dir string) (*Templates, error) {
	t := &Templates{set: template.New("")}
	for _, name := range names {
		text, err := fs.ReadFile(embedded, "templates/"+name)
		if err != nil {
			return nil, fmt.Errorf("embedded prompt template: %w", err)
		}
		if _, err := t.set.New(name).Parse(string(text)); err != nil {
			return nil, fmt.Errorf("embedded prompt template: %w", err)
		}
	}
	if dir != "" {
		if err := t.replace(dir); err != nil {
			return nil, err
		}
	}
	if err := t.try(); err != nil {
		if dir != "" {
			return nil, fmt.Errorf("prompt templates in %s: %w", dir, err)
		}
		return nil, err
	}
	return t, nil
}

// Sum returns a checksum of the templates.
func (t *Templates) Sum() string {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s\n%q\n", name, t.set.Lookup(name).Root.String())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// try renders the samples.
func (t *Templates) try() error {
	for _, in := range samples() {
		if _, err := t.Render(in); err != nil {
			return err
		}
		for left, fits := range []bool{false, true} {
			if _, err := t.Found(&Found{Agents: in.Agents, Fits: fits, Left: left}); err != nil {
				return err
			}
		}
		for left, r := range []Read{{Key: "f1", Text: "a\nb"}, {Key: "f1", Text: "a\nb", Find: "b"}, {Key: "f1", From: 9}} {
			if r.Left = left; left > 0 {
				r.Find += in.User
			}
			if _, err := t.Read(&r, maxPart); err != nil {
				return err
			}
		}
		if len(in.History) == 0 {
			continue
		}
		if _, err := t.Summary(in, len(in.History)); err != nil {
			return err
		}
	}
	const id = "agent_of_try"
	text, err := t.execute("agent.tmpl", viewAgents([]Agent{{ID: id, Card: &a2a.AgentCard{Name: "A"}}})[0])
	if err == nil && !strings.Contains(text, id) { // as when it was overwritten: agents that the model cannot name get no work, and nobody knows why
		err = errors.New("render prompt: template: agent.tmpl: does not show {{.ID}}, the only name by which a model can give work to an agent")
	}
	return err
}

// replace reads the templates of dir. A file with an unknown name is an error, since it is probably misspelled and would have no effect. So is a
// folder without templates, since it is probably the wrong one.
func (t *Templates) replace(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("prompt templates: %w", err)
	}
	replaced := false
	for _, e := range entries {
		name := e.Name()
		if filepath.Ext(name) != ".tmpl" {
			continue
		}
		replaced = true
		path := filepath.Join(dir, name)
		if !slices.Contains(names, name) {
			return fmt.Errorf("prompt template %s: no such template, there are %s", path, strings.Join(names, ", "))
		}
		text, _, err := document.ReadRegular(path, maxTemplate)
		if err != nil {
			return fmt.Errorf("prompt template: %w", err)
		}
		if !utf8.Valid(text) {
			return fmt.Errorf("prompt template %s: it is damaged, or no text: it is not UTF-8", path)
		}
		// The added action prevents that an empty template counts as undefined.
		if _, err := t.set.New(name).Parse(string(text) + `{{""}}`); err != nil {
			return fmt.Errorf("prompt template %s: %w", path, err)
		}
	}
	if !replaced {
		return fmt.Errorf("prompt templates: %s has none: name a folder with files such as %s", dir, names[0])
	}
	return nil
}

// execute runs a template, and removes the newlines at the end of its output.
func (t *Templates) execute(name string, data any) (string, error) {
	var b bounded
	if err := t.set.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render prompt: %w", err)
	}
	text := strings.TrimRight(b.String(), "\n")
	if text == "" && name != "facts.tmpl" { // providers refuse an empty message
		return "", fmt.Errorf("render prompt: template: %s:1: gives no text", name)
	}
	return text, nil
}

// maxText bounds what a template gives, in bytes: no model reads as much, and one of an operator's may repeat something without end.
const maxText = 64 << 20

// bounded keeps at most maxText.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, fmt.Errorf("it gives more than %d bytes", maxText)
	}
	return b.Builder.Write(p)
}

// samples are inputs that together cover every branch of the templates.
func samples() []*Input {
	task := Task{
		ID: "t", Agent: "a", Skill: "s", Text: "do", Input: []byte(`{"n":1}`), State: a2a.TaskStateCompleted, Result: "done",
		Artifacts: []Artifact{{Name: "out.txt", Text: "text"}}, Files: []File{{Key: "f2", Name: "plot.png", Type: "image/png", Size: 1}}, Along: []string{"f1"},
	}
	card := &a2a.AgentCard{Name: "A", Description: "does", Skills: make([]a2a.AgentSkill, maxSkills+1)}
	for i := range card.Skills {
		card.Skills[i] = a2a.AgentSkill{ID: "s", Name: "S", Description: "skill", Tags: []string{"x", "y"}, Examples: []string{"one", "two"}}
	}
	agents := []Agent{{ID: "a", Card: card, Seen: true, Inputs: map[string]string{"s": "{}"}}, {ID: "b", Card: &a2a.AgentCard{Name: "b"}}}
	joined, left, both := Update{Joined: agents}, Update{Left: []string{"b", "c"}}, Update{Joined: agents, Left: []string{"c"}}
	steps := []Step{{Say: "working", Tasks: []Task{task, task}, Update: left}}
	return []*Input{
		{User: "hello"},
		{User: "hello", History: []Turn{{User: "hi"}}},
		{User: "hello", Choice: true, More: 1, Update: joined, Files: []File{{Key: "f1", Name: "a.txt", Type: "text/plain", Size: 1, Head: "a"}}},
		{User: "hello", Choice: true, Agents: agents, Last: true, Unavailable: []Unavailable{{"b", "busy"}, {"c", "busy"}}},
		{
			Agents: agents, Summary: "earlier",
			History: []Turn{
				{User: "hi", Update: joined, Steps: steps, Answer: "hello"},
				{User: "which?", Kind: "clarify", Answer: "that?"},
				{User: "do", Kind: "refuse", Answer: "no"},
			},
			Omitted: 1, Waiting: []Task{task, task}, User: "go on", Update: both, Steps: steps,
			Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Last: true, MaxParallel: 8,
		},
	}
}
