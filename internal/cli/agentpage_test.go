package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

// An instance whose heartbeat has not come, which may have been killed, is shown as silent, in lists and on the page of its agent.
func TestSilentInstances(t *testing.T) {
	now := time.Now()
	instance := func(id string, ago time.Duration) registry.Instance {
		return registry.Instance{ID: id, State: registry.StateActive, Since: now.Add(-time.Hour), LastSeen: now.Add(-ago), Heartbeat: 30 * time.Second}
	}
	for name, test := range map[string]struct {
		instances         []registry.Instance
		state, seen, list string
		page              string
	}{
		"all there":  {[]registry.Instance{instance("a", time.Second), instance("b", 35*time.Second)}, "active", "now", "2", "· seen now\n"},
		"one silent": {[]registry.Instance{instance("a", time.Second), instance("b", 45*time.Second)}, "active", "now", "2, 1 silent", "· silent for 45 s\n"},
		"all silent": {[]registry.Instance{instance("a", 70*time.Second), instance("b", 80*time.Second)}, "silent", "70 s ago", "2", "· silent for 80 s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &registry.Record{ID: "x", State: registry.StateActive, Card: &a2a.AgentCard{Name: "x"}, Spec: &agentcard.Spec{}, Instances: test.instances, LastSeen: test.instances[0].LastSeen}
			info := agentInfos([]*registry.Record{r}, view.NewLookalikes(nil), now)[0]
			if info.State != test.state || info.LastSeen != test.seen || info.Instances != test.list {
				t.Errorf("listed as %s, seen %q with %q instances, want %s, %q with %q", info.State, info.LastSeen, info.Instances, test.state, test.seen, test.list)
			}
			if page := agentPage(r, "", now).Render(0, nil); !strings.HasSuffix(page, test.page) {
				t.Errorf("page\n%s\nwant its end %q", page, test.page)
			}
		})
	}
}

// A schema without fields is no input.
func TestSchemaText(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`: "none",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{},"additionalProperties":false}`: "none",
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                                              `"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"`,
		`{"type":"object","properties":{"x":{"type":"string"}}}`:                                                                  "x (string)",
	} {
		if got := schemaText(json.RawMessage(schema), "none"); got != want {
			t.Errorf("schemaText(%s) = %q, want %q", schema, got, want)
		}
	}
	if got := schemaText(nil, "none"); got != "" {
		t.Errorf("schemaText(nil) = %q", got)
	}
}
