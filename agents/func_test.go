package agents_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

type place struct {
	City string `json:"city" jsonschema:"where"`
	Days int    `json:"days,omitempty"`
}

type forecast struct {
	Text  string   `json:"text"`
	Temps []int    `json:"temps"`
	Big   uint64   `json:"big"`
	Extra *float64 `json:"extra,omitempty"`
}

func weather() agents.Executor {
	return agents.Skills(
		agents.Func(a2a.AgentSkill{ID: "forecast", Name: "Forecast", Description: "Tells the weather"}, func(_ context.Context, _ *agents.Task, in place) (*forecast, error) {
			switch in.City {
			case "nowhere":
				return nil, errors.New("there is no such place")
			case "null":
				return nil, nil
			}
			return &forecast{Text: "sun in " + in.City, Temps: []int{in.Days}, Big: 1<<63 + 1}, nil
		}),
		agents.Func(a2a.AgentSkill{ID: "shout", Name: "Shout"}, func(_ context.Context, _ *agents.Task, in string) (string, error) {
			return strings.ToUpper(in), nil
		}),
	)
}

// Inputs and outputs of typed skills are checked, and have the types of the function.
func TestFunc(t *testing.T) {
	for name, c := range map[string]struct {
		skill, text string
		input       any
		want        string
	}{
		"input":       {"forecast", "weather", map[string]any{"city": "Rome", "days": 2}, `COMPLETED: {"big":9223372036854775809,"temps":[2],"text":"sun in Rome"}`},
		"words":       {"forecast", ` {"city":"Rome"}`, nil, `COMPLETED: {"big":9223372036854775809,"temps":[0],"text":"sun in Rome"}`},
		"text":        {"shout", "hello", nil, "COMPLETED: HELLO"},
		"error":       {"forecast", "weather", map[string]any{"city": "nowhere"}, "FAILED: there is no such place"},
		"no input":    {"forecast", "weather in Rome", nil, "REJECTED: the skill forecast takes structured input: there is none"},
		"misfit":      {"forecast", "weather", map[string]any{"town": "Rome"}, "REJECTED: the input does not fit the skill forecast: "},
		"wrong type":  {"forecast", "weather", map[string]any{"city": "Rome", "days": "two"}, "REJECTED: the input does not fit the skill forecast: "},
		"no skill":    {"sing", "la", nil, `REJECTED: there is no skill "sing": the skills are forecast, shout`},
		"null output": {"forecast", "weather", map[string]any{"city": "null"}, "FAILED: the agent is broken: its result does not fit the skill forecast: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				stop := b.execute(weather(), nil)
				e := task("t1", c.text, map[string]any{transport.MetaTaskType: c.skill})
				if c.input != nil {
					m := e.Payload.(*a2a.Message)
					m.Parts = append(m.Parts, a2a.NewDataPart(c.input))
				}
				b.give(e)
				if got := dataSummary(t, b); !strings.HasPrefix(got, "t1 "+c.want) {
					t.Errorf("result = %s, want %s", got, c.want)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// dataSummary returns the only result, with its data as JSON.
func dataSummary(t *testing.T, b *bench) string {
	t.Helper()
	if len(b.got()) != 1 {
		t.Fatalf("results = %q, want one", b.got())
	}
	task := b.results[0].Payload.(*a2a.Task)
	if d, ok := task.Status.Message.Parts[0].Content.(a2a.Data); ok {
		v, err := transport.EncodeValue(d.Value)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(summaryState(task)) + ": " + string(v)
	}
	return summary(task)
}

func summaryState(task *a2a.Task) string { s, _, _ := strings.Cut(summary(task), ":"); return s }

// The card contains the schemas of the types.
func TestFuncCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(weather(), nil)
		defer stop() //nolint:errcheck // it is stopped
		c := b.cards[0].Card
		var ids []string
		for _, s := range c.Skills {
			ids = append(ids, s.ID+" "+strings.Join(s.InputModes, ","))
		}
		if diff := cmp.Diff([]string{"do ", "forecast application/json", "shout text/plain"}, ids); diff != "" {
			t.Errorf("skills (-want +got):\n%s", diff)
		}
		ability := agentcard.SpecOf(c).Abilities["forecast"]
		for _, want := range []string{`"city"`, `"description":"where"`, `"required":["city"]`, `"additionalProperties":false`, `"type":"object"`} {
			if !strings.Contains(string(ability.InputSchema), want) {
				t.Errorf("input schema %s has no %s", ability.InputSchema, want)
			}
		}
		if !strings.Contains(string(ability.OutputSchema), `"temps"`) {
			t.Errorf("output schema %s", ability.OutputSchema)
		}
		if a := agentcard.SpecOf(c).Abilities["shout"]; a.InputSchema != nil || a.OutputSchema != nil {
			t.Errorf("a skill of words has schemas: %+v", a)
		}
	})
}
