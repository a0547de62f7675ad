package eval

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

//go:embed cases/*.jsonl
var own embed.FS

// Case is a situation and the decision that is right in it. Its JSON form is in README.md.
type Case struct {
	ID       string `json:"id"`       // unique
	Language string `json:"language"` // of the user, a BCP 47 tag
	About    string `json:"about"`    // what it is an example of: the table has a row for each

	Agents  []string   `json:"agents,omitempty"` // ids of those that are there; none: all of the file
	History []exchange `json:"history,omitempty"`
	User    string     `json:"user"`
	Steps   []step     `json:"steps,omitempty"`   // of this turn, so far
	Waiting []task     `json:"waiting,omitempty"` // of an earlier turn, for the user's reply
	Last    bool       `json:"last,omitempty"`    // no step is left

	Want Want `json:"want"`

	agents []prompt.Agent
}

// exchange is an earlier turn.
type exchange struct {
	User   string `json:"user"`
	Steps  []step `json:"steps,omitempty"`
	Answer string `json:"answer"`
}

// step is a decision to delegate, with its results.
type step struct {
	Tasks []task `json:"tasks"`
}

type task struct {
	Agent  string `json:"agent"`
	Skill  string `json:"skill,omitempty"`
	Task   string `json:"task"`
	State  string `json:"state,omitempty"` // completed, failed or input-required; "" is completed
	Result string `json:"result"`
}

// Want is the right decision. What is not given is not judged.
type Want struct {
	Kinds []llm.Kind `json:"kinds"` // one of them
	// Agents are the agents of the delegations, one for each in any order. Several agents that are equally right are separated by "|".
	Agents []string `json:"agents,omitempty"`
	// Order has pairs of agents: the first one's delegation comes before the second one's, which depends on it. Agents without a pair must not depend
	// on each other.
	Order [][2]string `json:"order,omitempty"`
	// Words have to be in the task or in the input for an agent, by its id, whatever their case; words that are equally right are separated by "|".
	Words map[string][]string `json:"words,omitempty"`
	// Input has fields that the structured input for an agent must have, by its id.
	Input map[string]map[string]any `json:"input,omitempty"`
	// Continues says that the delegation continues the waiting task; otherwise none may.
	Continues bool `json:"continues,omitempty"`
	// Say are words that the answer must have, as Words.
	Say []string `json:"say,omitempty"`
	// Not are words that neither the answer nor a delegation may have.
	Not []string `json:"not,omitempty"`
}

// agentLine is an agent of a file.
type agentLine struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Skills      []struct {
		ID          string          `json:"id"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Examples    []string        `json:"examples"`
		Tags        []string        `json:"tags"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"skills"`
}

// Bounds of a file, and of a line, in bytes.
const (
	MaxFile = 16 << 20
	maxLine = 1 << 20
)

// Own returns the cases that come with Cortex, in the order of their ids.
func Own() ([]Case, error) {
	agents, err := own.ReadFile("cases/agents.jsonl")
	if err != nil {
		return nil, err
	}
	files, err := own.ReadDir("cases")
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, f := range files {
		if f.Name() == "agents.jsonl" {
			continue
		}
		b, err := own.ReadFile("cases/" + f.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return Read(agents, all)
}

// Read returns the cases of two texts with a JSON object on each line: agents, and cases. An error names the line and the field.
func Read(agents, cases []byte) ([]Case, error) {
	known := map[string]prompt.Agent{}
	err := lines("agents", agents, func(a *agentLine) error {
		card, err := a.card()
		switch {
		case err != nil:
			return err
		case a.ID == "" || known[a.ID].Card != nil:
			return fmt.Errorf("id %q is missing, or is there twice", a.ID)
		}
		known[a.ID] = prompt.Agent{ID: a.ID, Card: card, Seen: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []Case
	ids := map[string]bool{}
	err = lines("cases", cases, func(c *Case) error {
		if c.ID == "" || ids[c.ID] {
			return fmt.Errorf("id %q is missing, or is there twice", c.ID)
		}
		ids[c.ID] = true
		if err := c.complete(known); err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
		all = append(all, *c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Case) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// lines passes each JSON object of a text to f.
func lines[T any](what string, text []byte, f func(*T) error) error {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, maxLine)
	objects := 0
	for at := 1; s.Scan(); at++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		v := new(T)
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		err := d.Decode(v)
		if err == nil {
			err = f(v)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", what, at, err)
		}
		objects++
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if objects == 0 {
		return fmt.Errorf("%s: there is nothing in it", what)
	}
	return nil
}

func (a *agentLine) card() (*a2a.AgentCard, error) {
	card := &a2a.AgentCard{Name: a.Name, Description: a.Description}
	spec := &agentcard.Spec{Abilities: map[string]agentcard.Ability{}}
	for _, s := range a.Skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: s.ID, Name: s.Name, Description: s.Description, Examples: s.Examples, Tags: s.Tags})
		if len(s.InputSchema) > 0 {
			if _, err := agentcard.Compile(s.InputSchema); err != nil {
				return nil, fmt.Errorf("input_schema of skill %s: %w", s.ID, err)
			}
			spec.Abilities[s.ID] = agentcard.Ability{InputSchema: s.InputSchema}
		}
	}
	return agentcard.Attach(card, spec), nil
}

// complete checks a case and looks up its agents.
func (c *Case) complete(known map[string]prompt.Agent) error {
	switch {
	case c.Language == "" || c.About == "" || strings.TrimSpace(c.User) == "":
		return errors.New("language, about or user is missing")
	case len(c.Want.Kinds) == 0:
		return errors.New("want.kinds is missing")
	}
	for _, k := range c.Want.Kinds {
		if !slices.Contains(llm.Kinds(), k) {
			return fmt.Errorf("want.kinds: no kind %q", k)
		}
	}
	names := c.Agents
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(known))
	}
	for _, id := range names {
		a, ok := known[id]
		if !ok {
			return fmt.Errorf("agents: no agent %q", id)
		}
		c.agents = append(c.agents, a)
	}
	slices.SortFunc(c.agents, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	for _, either := range c.Want.Agents {
		for id := range strings.SplitSeq(either, "|") {
			if !slices.ContainsFunc(c.agents, func(a prompt.Agent) bool { return a.ID == id }) {
				return fmt.Errorf("want.agents: no agent %q", id)
			}
		}
	}
	return nil
}

// waitingID is the id of a waiting task.
func (c *Case) waitingID(i int) string { return fmt.Sprintf("%s-waiting-%d", c.ID, i+1) }

// turn returns the situation for a decider, at a time that is the same for all.
func (c *Case) turn() *llm.Turn {
	now := time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC)
	t := &llm.Turn{ContextID: "eval-" + c.ID, ID: c.ID, Input: prompt.Input{
		Agents: c.agents, User: c.User, Now: now, TimeZone: "Europe/Berlin", Locale: c.Language, MaxParallel: llm.DefaultMaxParallel, Last: c.Last,
	}}
	for _, h := range c.History {
		t.History = append(t.History, prompt.Turn{User: h.User, Steps: c.steps(h.Steps), Answer: h.Answer})
	}
	t.Steps = c.steps(c.Steps)
	for i, w := range c.Waiting {
		task := w.task()
		task.ID = a2a.TaskID(c.waitingID(i))
		t.Waiting = append(t.Waiting, task)
	}
	return t
}

func (c *Case) steps(steps []step) []prompt.Step {
	var all []prompt.Step
	for i, s := range steps {
		var one prompt.Step
		for j, t := range s.Tasks {
			task := t.task()
			task.ID = a2a.TaskID(fmt.Sprintf("%s-%d-%d", c.ID, i+1, j+1))
			one.Tasks = append(one.Tasks, task)
		}
		all = append(all, one)
	}
	return all
}

func (t *task) task() prompt.Task {
	state := a2a.TaskStateCompleted
	switch t.State {
	case "failed":
		state = a2a.TaskStateFailed
	case "input-required":
		state = a2a.TaskStateInputRequired
	}
	return prompt.Task{Agent: t.Agent, Skill: t.Skill, Text: t.Task, State: state, Result: t.Result}
}
