package agents_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestLoadCard(t *testing.T) {
	got, warnings, err := agents.LoadCard(t.Context(), filepath.Join("testdata", "older.yaml"))
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	text := []string{"text/plain"}
	want := &a2a.AgentCard{
		Name: "agent_translator", Description: "Language translation service", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{{URL: "http://localhost:9999/", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.2"}},
		DefaultInputModes:   text, DefaultOutputModes: text,
		Skills: []a2a.AgentSkill{{
			ID: "translate", Name: "Text Translation", Description: "Translates text between languages", Tags: []string{"language", "translation"},
			Examples: []string{"Translate this to Spanish", "Convert to French"}, InputModes: text, OutputModes: text,
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
	if _, _, err := agents.LoadCard(t.Context(), "testdata/none.yaml"); err == nil || err.Error() != "testdata/none.yaml: no such file or directory" {
		t.Errorf("LoadCard of no file = %v", err)
	}
}

// A card needs only a name.
func TestReadCardFillsIn(t *testing.T) {
	tests := []struct {
		file       string
		want       a2a.AgentSkill
		desc, vers string
	}{
		{"name: agent_weather", a2a.AgentSkill{ID: "weather", Name: "weather", Description: "The agent agent_weather", Tags: []string{}}, "The agent agent_weather", "0.1.0"},
		{`{"name": "Weather", "description": "Knows the weather", "version": "2"}`, a2a.AgentSkill{ID: "Weather", Name: "Weather", Description: "Knows the weather", Tags: []string{}}, "Knows the weather", "2"},
		{"name: w\nversion: 3\nskills:\n- name: Tell the Weather", a2a.AgentSkill{ID: "tell_the_weather", Name: "Tell the Weather", Description: "Tell the Weather", Tags: []string{}}, "The agent w", "3"},
		{"name: w\nskills:\n- id: tell\n  description: Tells it\n", a2a.AgentSkill{ID: "tell", Name: "tell", Description: "Tells it", Tags: []string{}}, "Tells it", "0.1.0"},
	}
	for _, tt := range tests {
		got, _, err := agents.ReadCard("f", strings.NewReader(tt.file))
		if err != nil {
			t.Errorf("ReadCard(%q): %v", tt.file, err)
			continue
		}
		if diff := cmp.Diff([]a2a.AgentSkill{tt.want}, got.Skills); diff != "" {
			t.Errorf("ReadCard(%q): skills (-want +got):\n%s", tt.file, diff)
		}
		if got.Description != tt.desc || got.Version != tt.vers {
			t.Errorf("ReadCard(%q) = description %q and version %q, want %q and %q", tt.file, got.Description, got.Version, tt.desc, tt.vers)
		}
		b, err := json.Marshal(got)
		if err != nil || bytes.Contains(b, []byte("null")) {
			t.Errorf("ReadCard(%q) encodes as %s, %v, want no null", tt.file, b, err)
		}
	}
}

func TestLoadSpec(t *testing.T) {
	path := filepath.Join("..", "agentcard", "testdata", "product-search.yaml")
	got, warnings, err := agents.LoadSpec(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := agents.LoadCard(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("LoadCard of the same (-want +got):\n%s", diff)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "product-search.yaml: ") {
		t.Errorf("warnings = %q, want one of product-search.yaml", warnings)
	}
	if _, _, err := agents.LoadSpec(t.Context(), "testdata/older.yaml"); err == nil || !strings.HasPrefix(err.Error(), "older.yaml: is an A2A card, not an AgentSpec") {
		t.Errorf("LoadSpec of a card = %v, want an error", err)
	}
}

func TestReadCardRefuses(t *testing.T) {
	tests := []struct{ file, want string }{
		{"", `f: name is missing; add a line such as "name: agent_weather"`},
		{"description: x", `f: name is missing; add a line such as "name: agent_weather"`},
		{"name: w\ndescripton: x", `f: unknown field "descripton"; did you mean "description"?`},
		{"name: w\ndefault_input_mode: [x]", `f: unknown field "default_input_mode"; did you mean "defaultInputModes"?`},
		{"name: w\nfavourite: x", `f: unknown field "favourite"; remove it, or use one of supportedInterfaces, `},
		{"name: w\nskills:\n- nmae: x", `f: unknown field "skills[0].nmae"; did you mean "skills[0].name"?`},
		{"name: w\nskills: [tell]", `f: skills[0] must have fields such as "name: ..." and "description: ...", not be a text`},
		{"name: w\nskills: tell", `f: skills must be a list, not a text`},
		{"name: w\nskills:\n- description: x", `f: card of w: skill 1 has neither id nor name`},
		{"name: [w]", `f: name must be a text, not a list`},
		{"name: w\nname: v", `f: is not the YAML or JSON of a card: line 2: key "name" already set in map`},
		{"- name: w", `f: is not the YAML or JSON of a card: `},
		{"{", `f: is not the YAML or JSON of a card: `},
		{"name: ' '", `f: card has no name`},
		{"name: " + strings.Repeat("w", 300), `f: card: name is 300 bytes long, at most 256 are allowed`},
		{"name: w\ndescription: " + strings.Repeat("w", transport.MaxCard), `f: card of w: too large: `},
		{strings.Repeat("# comment\n", 1<<17), `f: the file is over 256 KiB, too large for a card, which has at most 64 KiB`},
	}
	for _, tt := range tests {
		_, _, err := agents.ReadCard("f", strings.NewReader(tt.file))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("ReadCard(%.60q) = %v, want %s", tt.file, err, tt.want)
		}
	}
}

func FuzzReadCard(f *testing.F) {
	for _, s := range []string{"name: w", `{"name":"w","skills":[{"id":"x"}]}`, "a: &a [*a]", "name: w\nsecuritySchemes: {x: {type: apiKey}}", "name: 1\nskills: {}\n"} {
		f.Add(s)
	}
	for _, s := range documenttest.Seeds() {
		f.Add("name: w\n" + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, _, err := agents.ReadCard("f", strings.NewReader(s))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("ReadCard(%q) = %v, want one line", s, err)
			}
			return
		}
		if err := transport.ValidateCard(c); err != nil {
			t.Errorf("ReadCard(%q) returned an invalid card: %v", s, err)
		}
	})
}
