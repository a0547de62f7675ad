package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Skill is an [Executor] for one skill of an agent with Go types for input and output, made by [Func]. [Skills] combines several.
// [Serve] adds the skill's schemas and modes to the card.
type Skill struct {
	skill         a2a.AgentSkill
	input, output *agentcard.Schema // nil: text
	ability       agentcard.Ability
	do            func(ctx context.Context, t *Task, input []byte) (any, error)
}

// Func makes a skill of a function. The schemas of In and Out are inferred from the types: from their json tags and, for descriptions, their
// jsonschema tags. They are added to the card, so that Cortex gives matching tasks, and checked here as well: input that does not match In is
// refused, and a result that does not match Out fails the task. Without structured input, the task's text may be the input as JSON.
//
// If In is string, it is the text of the task; if Out is string, it is the text of the result. Other types must be JSON objects:
// structs or maps. Func panics when skill has no id, or a type has no schema, such as a channel.
func Func[In, Out any](skill a2a.AgentSkill, f func(ctx context.Context, t *Task, in In) (Out, error)) *Skill {
	if skill.ID == "" || f == nil {
		panic("agents: Func needs a skill with an id, and a function")
	}
	s := &Skill{skill: skill}
	s.ability.InputSchema, s.input = schemaFor[In]()
	s.ability.OutputSchema, s.output = schemaFor[Out]()
	s.do = func(ctx context.Context, t *Task, input []byte) (any, error) {
		var in In
		if text, ok := any(&in).(*string); ok {
			*text = t.Text()
		} else if err := json.Unmarshal(input, &in); err != nil {
			return nil, Rejected(fmt.Errorf("the input cannot be used: %w", err))
		}
		return f(ctx, t, in)
	}
	return s
}

// schemaFor returns the schema of T, nil for string.
func schemaFor[T any]() (json.RawMessage, *agentcard.Schema) {
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[string]() {
		return nil, nil
	}
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("agents: %s has no schema: %v", t, err))
	}
	schema.Types, schema.Type = nil, "object" // a pointer stands for a required object
	if k := underlying(t).Kind(); k != reflect.Struct && k != reflect.Map {
		panic(fmt.Sprintf("agents: %s is no JSON object: take a struct or a map for it", t))
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("agents: the schema of %s: %v", t, err))
	}
	check, err := agentcard.Compile(raw)
	if err != nil {
		panic(fmt.Sprintf("agents: the schema of %s: %v", t, err))
	}
	return raw, check
}

func underlying(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// Execute implements [Executor].
func (s *Skill) Execute(ctx context.Context, t *Task) iter.Seq2[a2a.Event, error] {
	return Handler(s.handle).Execute(ctx, t)
}

func (s *Skill) handle(ctx context.Context, t *Task) (*Result, error) {
	var input []byte
	if s.input != nil {
		var err error
		if input, err = inputOf(t); err != nil {
			return nil, Rejected(fmt.Errorf("the skill %s takes structured input: %w", s.skill.ID, err))
		}
		if err := s.input.Validate(input); err != nil {
			return nil, Rejected(fmt.Errorf("the input does not fit the skill %s: %w", s.skill.ID, err))
		}
	}
	out, err := s.do(ctx, t, input)
	if err != nil {
		return nil, err
	}
	if s.output == nil {
		text, _ := out.(string)
		if text == "" {
			return nil, nil
		}
		return Text(text), nil
	}
	b, err := json.Marshal(out)
	if err == nil {
		err = s.output.Validate(b)
	}
	if err != nil {
		return nil, fmt.Errorf("the agent is broken: its result does not fit the skill %s: %w", s.skill.ID, err)
	}
	v, err := transport.DecodeValue(b)
	if err != nil {
		return nil, fmt.Errorf("the result of the skill %s: %w", s.skill.ID, err)
	}
	return &Result{Parts: a2a.ContentParts{a2a.NewDataPart(v)}}, nil
}

// inputOf returns the structured input of t as JSON.
func inputOf(t *Task) ([]byte, error) {
	if v := t.Input(); v != nil {
		return transport.EncodeValue(v)
	}
	if text := []byte(strings.TrimSpace(t.Text())); json.Valid(text) && bytes.HasPrefix(text, []byte("{")) {
		return text, nil
	}
	return nil, errors.New("there is none")
}

// describe returns card with the skill's schemas and modes, added to the skill with the same id or as a new skill.
func (s *Skill) describe(card *a2a.AgentCard) *a2a.AgentCard {
	n, spec := *card, *agentcard.SpecOf(card)
	n.Skills = slices.Clone(n.Skills)
	at := slices.IndexFunc(n.Skills, func(k a2a.AgentSkill) bool { return k.ID == s.skill.ID })
	if at < 0 {
		n.Skills = append(n.Skills, s.skill)
		at = len(n.Skills) - 1
	}
	k := &n.Skills[at]
	if len(k.InputModes) == 0 {
		k.InputModes = modes(s.input)
	}
	if len(k.OutputModes) == 0 {
		k.OutputModes = modes(s.output)
	}
	spec.Abilities = maps.Clone(spec.Abilities)
	if spec.Abilities == nil {
		spec.Abilities = map[string]agentcard.Ability{}
	}
	ability := s.ability // tasks name a skill of a Func by its id
	ability.Confidence = spec.Abilities[s.skill.ID].Confidence
	spec.Abilities[s.skill.ID] = ability
	return agentcard.Attach(&n, &spec)
}

func modes(s *agentcard.Schema) []string {
	if s == nil {
		return []string{"text/plain"}
	}
	return []string{"application/json"}
}

// Skills combines several skills into an agent. It refuses a task that names none of them, unless there is only one.
func Skills(list ...*Skill) Executor { return skills(list) }

type skills []*Skill

// Execute implements [Executor].
func (list skills) Execute(ctx context.Context, t *Task) iter.Seq2[a2a.Event, error] {
	for _, s := range list {
		if t.Skill == s.skill.ID || t.Skill == "" && len(list) == 1 {
			return s.Execute(ctx, t)
		}
	}
	return func(yield func(a2a.Event, error) bool) {
		var ids []string
		for _, s := range list {
			ids = append(ids, s.skill.ID)
		}
		yield(nil, Rejected(fmt.Errorf("there is no skill %q: the skills are %s", shorten.Line(t.Skill, 64), strings.Join(ids, ", "))))
	}
}

func (list skills) describe(card *a2a.AgentCard) *a2a.AgentCard {
	for _, s := range list {
		card = s.describe(card)
	}
	return card
}

// describer is an Executor that adds to its agent's card.
type describer interface {
	describe(card *a2a.AgentCard) *a2a.AgentCard
}
