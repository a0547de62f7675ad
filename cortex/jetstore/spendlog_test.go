package jetstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

// TestSpendLogForgets checks that old days expire, and that the bucket does not grow with each Spend.
func TestSpendLogForgets(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	if _, err := jetstore.Open(t.Context(), nc, nil); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), jetstore.SpendLog)
	if err != nil {
		t.Fatal(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.TTL() != 4*24*time.Hour || status.History() != 1 {
		t.Errorf("the bucket keeps %d values for %v, want 1 for four days", status.History(), status.TTL())
	}
}
