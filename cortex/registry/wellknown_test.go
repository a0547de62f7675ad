package registry_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

const wellKnownFile = `[
  {
    "agentName": "ResearchAgent",
    "description": "On-demand research agent. Searches the web, fetches pages, and synthesises answers using an LLM.",
    "version": "1.0",
    "skills": [
      {
        "id": "research",
        "name": "Research",
        "description": "Research a topic using web search and page fetching, then synthesise a concise answer.",
        "examples": ["What is known of tardigrades?"],
        "tags": ["web"]
      },
      {"id": "digest", "name": "Digest", "description": "Shortens."}
    ]
  },
  {"name": "A2A agent", "description": "A card", "version": "2", "protocolVersion": "1.0", "url": "https://example.com",
   "capabilities": {"streaming": true}, "skills": [{"id": "x", "name": "X", "description": "", "tags": ["t"], "inputModes": ["text/plain"]}]}
]`

func TestReadWellKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "well-known-agents.json")
	if err := os.WriteFile(path, []byte("\ufeff"+wellKnownFile), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := registry.LoadWellKnown(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	text := []string{"text/plain"}
	want := []registry.WellKnown{
		{ID: "ResearchAgent", Card: &a2a.AgentCard{
			Name:        "ResearchAgent",
			Description: "On-demand research agent. Searches the web, fetches pages, and synthesises answers using an LLM.",
			Version:     "1.0", SupportedInterfaces: []*a2a.AgentInterface{}, DefaultInputModes: text, DefaultOutputModes: text,
			Skills: []a2a.AgentSkill{
				{
					ID: "research", Name: "Research", Examples: []string{"What is known of tardigrades?"}, Tags: []string{"web"},
					Description: "Research a topic using web search and page fetching, then synthesise a concise answer.",
				},
				{ID: "digest", Name: "Digest", Description: "Shortens.", Tags: []string{}},
			},
		}},
		{ID: "A2A_agent", Card: &a2a.AgentCard{
			Name: "A2A agent", Description: "A card", Version: "2", Capabilities: a2a.AgentCapabilities{Streaming: true},
			Skills: []a2a.AgentSkill{{ID: "x", Name: "X", Tags: []string{"t"}, InputModes: text}},
		}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("well-known agents differ (-want +got):\n%s", d)
	}
	if _, err := registry.LoadWellKnown(t.Context(), path+".not"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("LoadWellKnown of no file = %v, want an error with its path", err)
	}
}

// TestReadWellKnownSpecs checks that the list's extensions to A2A are read, especially the tenant scope.
func TestReadWellKnownSpecs(t *testing.T) {
	list, err := registry.ReadWellKnown(strings.NewReader(`[
		{"name": "a", "spec": {"tenant_scope": "acme"}, "skills": [{"id": "x", "name": "X"}]},
		{"agent_type": "b", "version": "1.2.0", "description": "d", "owner_team": "team", "tenant_scope": "acme",
		 "capabilities": [{"name": "x", "description": "d", "input_schema": {}, "output_schema": {}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"a", "b"} {
		spec := agentcard.SpecOf(list[i].Card)
		if list[i].ID != id || spec.TenantScope != "acme" || len(list[i].Card.Skills) != 1 {
			t.Errorf("entry %d is %s for %q with %d skills, want %s for acme with one", i+1, list[i].ID, spec.TenantScope, len(list[i].Card.Skills), id)
		}
	}
}

func TestReadWellKnownErrors(t *testing.T) {
	big := strings.Repeat("x", 70_000)
	tests := []struct{ name, file, want string }{
		{"nothing", ``, "line 1: unexpected end of JSON input"},
		{"syntax", "[\n {\"agentName\": \"a\",}\n]", "line 2: invalid character '}'"},
		{"more behind", "[]\n[]", "line 2"},
		{"no list", `{"agentName": "a"}`, "want a list of agents"},
		{"no value", " null\n", "want a list of agents"},
		{"no object", `[{"agentName": "a"}, "b"]`, "entry 2: is a JSON string, want an object"},
		{"null", `[null]`, `entry 1: field "agentName" is missing`},
		{"no name", `[{"description": "d"}]`, `entry 1: field "agentName" is missing`},
		{"empty name", `[{"agentName": " "}]`, "entry 1: card has no name"},
		{"two names", `[{"agentName": "a", "name": "a"}]`, "entry 1: has both"},
		{"name's type", `[{"agentName": 7}]`, `entry 1: field "agentName" is a JSON number, want a string`},
		{"skills' type", `[{"agentName": "a", "skills": {}}]`, `entry 1: field "skills" is a JSON object, want a list`},
		{"skill's type", `[{"agentName": "a", "skills": [{"id": "x"}, 3]}]`, "entry 1: skill 2: is a JSON number, want an object"},
		{"skill's field", `[{"agentName": "a", "skills": [{"id": "x", "tags": "t"}]}]`, `entry 1: skill 1: field "tags" is a JSON string, want a list`},
		{"nameless skill", `[{"agentName": "a", "skills": [{"description": "d"}]}]`, "entry 1: card of a: skill 1 has neither id nor name"},
		{"unknown field", `[{"agentName": "a"}, {"agentName": "b", "skill": []}]`, `entry 2: field "skill" is unknown`},
		{"unknown field of a skill", `[{"agentName": "b", "skills": [{"Id": "x", "desc": ""}]}]`, `entry 1: skill 1: field "desc" is unknown`},
		{"A2A card's field", `[{"name": "a", "skills": [{"id": 1}]}]`, `entry 1: field "skills.id" is a JSON number, want a string`},
		{"card's spec", `[{"name": "a", "spec": {"tenant_scop": "t"}}]`, `entry 1: card: unknown field "spec.tenant_scop"; did you mean "spec.tenant_scope"? (line 1)`},
		{"line of a field", "[{\"name\": \"b\"},\n\n{\"name\": \"a\",\n\"spec\": {\n\"tenant_scop\": \"t\"}}]", `entry 2: card: unknown field "spec.tenant_scop"; did you mean "spec.tenant_scope"? (line 5)`},
		{"line of an entry", "[{\"agentName\": \"b\"},\n\n{\"agentName\": \"a\",\n\"skill\": []}]", `entry 2: field "skill" is unknown (line 3)`},
		{"key twice", "[{\"agentName\": \"a\",\n\"agentName\": \"b\"}]", `line 2: key "agentName" is there twice`},
		{"deep", `[{"agentName": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}]", "line 1: it is nested too deep"},
		{"duplicate", `[{"agentName": "a b"}, {"agentName": "c"}, {"name": "a_b"}]`, `entry 3: "a_b" is there already, as entry 1`},
		{"orchestrator", `[{"agentName": "cortex"}]`, `entry 1: "cortex" is the orchestrator's own name`},
		{"long name", fmt.Sprintf(`[{"agentName": %q}]`, strings.Repeat("n", 300)), "entry 1: card: name is 300 bytes long"},
		{"big entry", fmt.Sprintf(`[{"agentName": "a", "description": %q}]`, big), "entry 1: 70"},
		{"big file", "[" + strings.Repeat(" ", 1<<20) + "]", "over 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := registry.ReadWellKnown(strings.NewReader(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ReadWellKnown = %d agents, %v, want an error with %q", len(list), err, tt.want)
			}
		})
	}
	if list, err := registry.ReadWellKnown(strings.NewReader("[]")); err != nil || len(list) != 0 {
		t.Errorf("ReadWellKnown of an empty list = %v, %v, want neither agents nor an error", list, err)
	}
}
