package memstore_test

import (
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestJournal reads the entries of several conversations and tenants in their order, more than go into one batch, and what was erased.
func TestJournal(t *testing.T) {
	ctx, s := t.Context(), memstore.New()
	last := map[[2]string]conversation.Version{}
	add := func(tenant, contextID string) {
		t.Helper()
		k := [2]string{tenant, contextID}
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))
		v, err := s.Append(ctx, tenant, contextID, last[k], &conversation.Entry{
			Seq: 1, Time: time.Now(), Cause: &transport.Event{ID: "m", From: "user", To: transport.Cortex, ContextID: contextID, Payload: m},
		})
		if err != nil {
			t.Fatal(err)
		}
		last[k] = v
	}
	for range 150 {
		add("", "a")
		add("acme", "a")
		add("", "b")
	}
	read := func() (all []string, erased int) {
		t.Helper()
		var at conversation.Version
		for {
			records, err := s.Records(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				if r.Version <= at {
					t.Fatalf("version %d is behind %d", r.Version, at)
				}
				at = r.Version
				if erased += len(r.Erased); r.Erased == nil {
					all = append(all, r.Tenant+"/"+r.ContextID)
				}
				if same, ok, err := s.Record(ctx, r.Version); err != nil || !ok || same.ContextID != r.ContextID || same.Sum != r.Sum {
					t.Errorf("Record(%d) = %+v, %v, %v", r.Version, same, ok, err)
				}
			}
		}
		if info, err := s.Journal(ctx); err != nil || info.Last != at || info.Created.IsZero() {
			t.Errorf("Journal = %+v, %v, want the last %d", info, err, at)
		}
		return all, erased
	}
	all, _ := read()
	if len(all) != 450 || all[0] != "/a" || all[1] != "acme/a" || all[2] != "/b" {
		t.Errorf("there are %d records, the first ones %q", len(all), all[:3])
	}
	first := last[[2]string{"", "b"}]
	if err := s.Erase(ctx, "", "b"); err != nil {
		t.Fatal(err)
	}
	if all, erased := read(); len(all) != 300 || erased != 150 {
		t.Errorf("there are %d records, and %d are erased", len(all), erased)
	}
	if _, ok, err := s.Record(ctx, first); ok || err != nil {
		t.Errorf("what was erased is there: %v, %v", ok, err)
	}
}
