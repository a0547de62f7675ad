package registry_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
)

// FuzzReadWellKnown checks that nothing panics, that errors are one line, and that ids are unique.
func FuzzReadWellKnown(f *testing.F) {
	for _, s := range documenttest.Seeds() {
		f.Add(s)
	}
	for _, s := range []string{
		`[{"agentName": "a", "skills": [{"id": "x"}]}]`, `[{"name": "a", "spec": {"tags": ["t"]}}]`, "[]\n[]", `[{"agentName": "a", "agentName": "b"}]`,
		`[{"agent_type": "t", "capabilities": []}]`, `[` + strings.Repeat(`{"agentName": `, 500), "[null]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := registry.ReadWellKnown(strings.NewReader(s))
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("ReadWellKnown(%q) = %q, want one line", s, err)
		}
		ids := map[string]bool{}
		for _, w := range list {
			if ids[w.ID] {
				t.Errorf("ReadWellKnown(%q) has %q twice", s, w.ID)
			}
			ids[w.ID] = true
		}
	})
}
