package jetstore_test

import (
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// TestMarkOfTheLeader checks that a cluster's leader is asked when a conversation was deleted: any replica answers a direct get, also one that is behind,
// and what was deleted would be decided again.
func TestMarkOfTheLeader(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Redirect("$JS.API.", 2*time.Second, true)
	spy, err := nc.SubscribeSync("$JS.API.DIRECT.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	if at, err := storage.ErasedAt(t.Context(), s, "", "c"); err != nil || !at.IsZero() {
		t.Errorf("what was not deleted was deleted at %s, %v", at, err)
	}
	for range 2 {
		if err := storage.KeepErased(t.Context(), s, "", "c"); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := storage.ErasedAt(t.Context(), s, "", "c"); err != nil || time.Since(at).Abs() > time.Hour {
		t.Errorf("it was deleted at %s, %v, want a moment ago", at, err)
	}
	if err := nc.Publish("$JS.API.DIRECT.GET.end", nil); err != nil {
		t.Fatal(err)
	}
	m, err := spy.NextMsg(10 * time.Second)
	if err != nil || m.Subject != "$JS.API.DIRECT.GET.end" {
		t.Errorf("%+v was asked of any replica, %v", m, err)
	}
}
