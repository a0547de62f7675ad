package cli

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestKeyed checks whose names have keys for the roles of a service: those of its tenant in the folder of --auth, or in that of its credentials.
func TestKeyed(t *testing.T) {
	dir := t.TempDir()
	if err := auth.Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	for tenant, id := range map[string]string{"": "agent_weather", "acme": "Ähre.1"} {
		if _, err := auth.AddAgent(dir, tenant, id); err != nil {
			t.Fatal(err)
		}
		n := &node{keys: auth.FolderOf(auth.Admin(dir, tenant), tenant), link: &link{tenant: tenant}}
		if ids, err := n.keyed(); err != nil || !slices.Equal(ids, []string{id}) {
			t.Errorf("in %q of tenant %q, %q have keys, and %v", n.keys, tenant, ids, err)
		}
	}
	for _, elsewhere := range []string{"", "orchestrator.creds", filepath.Join(dir, "orchestrator.creds"), auth.People(dir, ""), filepath.Join(t.TempDir(), "tenants", "_", "orchestrator.creds")} {
		if in := auth.FolderOf(elsewhere, ""); in != "" {
			t.Errorf("the keys of %q are in %q", elsewhere, in)
		}
	}
	n := &node{link: &link{}}
	if ids, err := n.keyed(); err != nil || ids != nil {
		t.Errorf("without keys: %q, %v", ids, err)
	}
}
