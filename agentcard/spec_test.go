package agentcard_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

func card(skills ...string) *a2a.AgentCard {
	c := &a2a.AgentCard{Name: "a"}
	for _, id := range skills {
		c.Skills = append(c.Skills, a2a.AgentSkill{ID: id})
	}
	return c
}

// carrying returns a card with these parameters in its extension.
func carrying(params map[string]any, skills ...string) *a2a.AgentCard {
	c := card(skills...)
	c.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:other", Params: map[string]any{"owner_team": "x"}}, {URI: agentcard.ExtensionURI, Params: params}}
	return c
}

func TestSpecIsCarried(t *testing.T) {
	want := &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{
			"find": {InputSchema: json.RawMessage(`{"a":1.5,"b":{"c":[]}}`), OutputSchema: json.RawMessage(`false`), Confidence: new(0.0), DispatchKey: "k", Confirm: true, Once: true},
			"Name": {DispatchKey: "by name"},
		},
		Tags: []string{"b", "a"}, Labels: map[string]string{"tier": "core", "empty": ""}, OwnerTeam: "Ünïcode team", TenantScope: "acme",
		Patterns: []string{"blackboard"},
		Limits:   agentcard.Limits{MaxConcurrentTasks: 3, TaskTimeout: 90 * time.Second, LLMTimeout: time.Millisecond, MaxRetries: new(0)},
		Extra:    map[string]any{"nats_subject": "tasks.x", "tools": []any{"all", 1.0, nil}, "nothing": nil},
	}
	for _, of := range []any{*want, want.Limits, want.Abilities["find"]} {
		for v, i := reflect.ValueOf(of), 0; i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("the test has no value for the field %s of %T: nobody knows whether it is carried", v.Type().Field(i).Name, of)
			}
		}
	}
	c := card("find")
	c.Skills = append(c.Skills, a2a.AgentSkill{Name: "Name"})
	c.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:other"}}
	before := *c
	got := agentcard.Attach(c, want)
	if diff := cmp.Diff(want, agentcard.SpecOf(got)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&before, c); diff != "" {
		t.Errorf("Attach changed its card (-before +after):\n%s", diff)
	}
	e := got.Capabilities.Extensions
	if len(e) != 2 || e[0].URI != "urn:other" || e[1].URI != agentcard.ExtensionURI || e[1].Required {
		t.Errorf("extensions = %+v, want the other one and one that is not required", e)
	}
	// Unchanged, or with the text of a schema in another form: the card is the same.
	other := *want
	other.Abilities = map[string]agentcard.Ability{
		"find": {InputSchema: json.RawMessage(` {"b": {"c": []}, "a": 1.50}`), OutputSchema: json.RawMessage(`false`), Confidence: new(0.0), DispatchKey: "k", Confirm: true, Once: true},
		"Name": want.Abilities["Name"],
	}
	if diff := cmp.Diff(got, agentcard.Attach(got, &other)); diff != "" {
		t.Errorf("card of the same spec (-want +got):\n%s", diff)
	}
	for _, s := range []*agentcard.Spec{nil, {}} {
		if diff := cmp.Diff(c, agentcard.Attach(got, s)); diff != "" {
			t.Errorf("card of no spec (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(&agentcard.Spec{}, agentcard.SpecOf(nil)); diff != "" {
		t.Errorf("SpecOf(nil) (-want +got):\n%s", diff)
	}
}

// TestAttachLeavesOut checks that Attach leaves out invalid values.
func TestAttachLeavesOut(t *testing.T) {
	s := &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{
			"find":  {InputSchema: json.RawMessage(`{"a":`), Confidence: new(math.NaN())},
			"other": {DispatchKey: "no such skill"},
		},
		OwnerTeam: "two\nlines", Limits: agentcard.Limits{MaxConcurrentTasks: -1, TaskTimeout: -time.Second, MaxRetries: new(-1)},
		Extra: map[string]any{"f": func() {}, "owner_team": "forged", "tags": []any{"forged"}, "kept": 1},
	}
	c := agentcard.Attach(card("find"), s)
	if diff := cmp.Diff(&agentcard.Spec{Extra: map[string]any{"kept": 1.0}}, agentcard.SpecOf(c)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"kept": 1.0}, c.Capabilities.Extensions[0].Params); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

func TestSpecOfStrangers(t *testing.T) {
	deep := any("x")
	for range 200 {
		deep = []any{deep}
	}
	var tags []any
	labels := map[string]any{}
	for i := range 100 {
		tags = append(tags, fmt.Sprint("t", i), fmt.Sprint("t", i))
		labels[fmt.Sprintf("l%02d", i)] = "v"
	}
	long := strings.Repeat("x", 257)
	ability := func(k string, v any) map[string]any {
		return map[string]any{"abilities": map[string]any{"s": map[string]any{k: v}}}
	}
	nothing, nobodys := agentcard.Spec{}, agentcard.Spec{TenantScope: agentcard.NoTenant}
	tests := []struct {
		name   string
		params map[string]any
		want   agentcard.Spec
	}{
		{"none", nil, nothing},
		{"wrong types", map[string]any{
			"owner_team": 1.0, "supported_patterns": "x", "max_concurrent_tasks": "10", "task_timeout_ms": true,
			"llm_timeout_ms": nil, "max_retries": map[string]any{}, "tags": 7.0, "labels": []any{}, "abilities": []any{"s"},
		}, nothing},
		{"ability of a wrong type", map[string]any{"abilities": map[string]any{"s": "x"}}, nothing},
		{"ability that says nothing", map[string]any{"abilities": map[string]any{"s": map[string]any{}}}, nothing},
		{"ability of no skill", map[string]any{"abilities": map[string]any{"t": map[string]any{"dispatch_key": "k"}}}, nothing},
		{"schema that is a text", ability("input_schema", `{"type":"object"}`), nothing},
		{"schema that is long", ability("input_schema", map[string]any{"title": strings.Repeat("x", 16<<10)}), nothing},
		{"schema that is deep", ability("input_schema", map[string]any{"not": deep}), nothing},
		{"confidence over 1", ability("confidence_hint", 1.1), nothing},
		{"confidence", ability("confidence_hint", 0.25), agentcard.Spec{Abilities: map[string]agentcard.Ability{"s": {Confidence: new(0.25)}}}},
		{"confidence under 0", ability("confidence_hint", -0.1), nothing},
		{"confidence that is no number", ability("confidence_hint", math.NaN()), nothing},
		{"key with a line end", ability("dispatch_key", "a\nb"), nothing},
		{"long team", map[string]any{"owner_team": long}, nothing},
		{"team that turns the line around", map[string]any{"owner_team": "a\u202eb"}, nothing},
		{"scope of a wrong type", map[string]any{"tenant_scope": []any{"x"}}, nobodys},
		{"long scope", map[string]any{"tenant_scope": long}, nobodys},
		{"scope with a line end", map[string]any{"tenant_scope": "t\n"}, nobodys},
		{"empty scope", map[string]any{"tenant_scope": ""}, nothing},
		{"null scope", map[string]any{"tenant_scope": nil}, nothing},
		{"broken text", map[string]any{"owner_team": "a\xff"}, nothing},
		{"numbers out of range", map[string]any{"max_concurrent_tasks": 1e18, "task_timeout_ms": 1e300, "llm_timeout_ms": -5.0, "max_retries": 1.5}, nothing},
		{"times out of range", map[string]any{"task_timeout_ms": 31_536_000_001.0}, nothing},
		{"the longest time", map[string]any{"task_timeout_ms": 31_536_000_000.0}, agentcard.Spec{Limits: agentcard.Limits{TaskTimeout: agentcard.MaxTimeout}}},
		{"fractions of a millisecond", map[string]any{"task_timeout_ms": 1500.9}, agentcard.Spec{Limits: agentcard.Limits{TaskTimeout: 1500 * time.Millisecond}}},
		{"zero", map[string]any{"max_concurrent_tasks": 0.0, "task_timeout_ms": 0.0, "max_retries": 0.0}, agentcard.Spec{Limits: agentcard.Limits{MaxRetries: new(0)}}},
		{"tags as a map", map[string]any{"tags": map[string]any{"tier": "core", "n": 1.0, "": "x", long: "x", "y": long}}, agentcard.Spec{Labels: map[string]string{"tier": "core"}}},
		{"deep extra", map[string]any{"deep": deep, "flat": 1.0}, agentcard.Spec{Extra: map[string]any{"flat": 1.0}}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(&tt.want, agentcard.SpecOf(carrying(tt.params, "s"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for _, skill := range []string{"s", "t"} {
			want, card := tt.want.Abilities[skill], carrying(tt.params, "s")
			if diff := cmp.Diff(want, agentcard.AbilityOf(card, skill)); diff != "" {
				t.Errorf("%s: skill %s alone (-want +got):\n%s", tt.name, skill, diff)
			}
			if diff := cmp.Diff(want.Confidence, agentcard.ConfidenceOf(card, skill)); diff != "" {
				t.Errorf("%s: confidence of skill %s (-want +got):\n%s", tt.name, skill, diff)
			}
		}
	}
	got := agentcard.SpecOf(carrying(map[string]any{"tags": tags, "labels": labels, "supported_patterns": tags}))
	if len(got.Tags) != agentcard.MaxTags || len(got.Labels) != agentcard.MaxLabels || len(got.Patterns) != agentcard.MaxPatterns || got.Labels["l63"] != "v" ||
		got.Tags[63] != "t63" {
		t.Errorf("%d tags, %d labels, %d patterns, want the first %d, %d, %d", len(got.Tags), len(got.Labels), len(got.Patterns),
			agentcard.MaxTags, agentcard.MaxLabels, agentcard.MaxPatterns)
	}
}

// FuzzSpecOf checks that texts of a card, which are external, never break a line.
func FuzzSpecOf(f *testing.F) {
	f.Add(`{"owner_team":"x","abilities":{"s":{"input_schema":{},"confidence_hint":0.5}},"tags":["a"],"labels":{"a":"b"},"extra":[{}]}`)
	f.Add(`{"tenant_scope":["a"]}`)
	f.Add(`{"max_retries":1e300,"task_timeout_ms":-1,"abilities":{"s":{"output_schema":true}}}`)
	f.Fuzz(func(t *testing.T, s string) {
		var params map[string]any
		if json.Unmarshal([]byte(s), &params) != nil {
			return
		}
		spec := agentcard.SpecOf(carrying(params, "s"))
		again := agentcard.SpecOf(agentcard.Attach(card("s"), spec))
		if diff := cmp.Diff(spec, again); diff != "" {
			t.Errorf("spec carried again (-want +got):\n%s", diff)
		}
	})
}

func BenchmarkSpecOfNone(b *testing.B) {
	c := card("a", "b")
	for b.Loop() {
		agentcard.SpecOf(c)
	}
}

func BenchmarkValidate(b *testing.B) {
	s, err := agentcard.Compile(json.RawMessage(search))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.Validate(json.RawMessage(`{"query":"red shoes","price_min":5,"category":"book"}`)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileAgain(b *testing.B) {
	for b.Loop() {
		if _, err := agentcard.Compile(json.RawMessage(search)); err != nil {
			b.Fatal(err)
		}
	}
}
