package jetstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/llm"
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

// TestSpendRemembers checks that a Spend does not read the sum that the same Store has written, and that nothing is lost when another one has written
// since, or the sum was removed.
func TestSpendRemembers(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	open := func() *jetstore.Store {
		s, err := jetstore.Open(t.Context(), nc, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(), open()
	spend := func(s *jetstore.Store, want int) (messages uint64) {
		t.Helper()
		before := nc.Stats().OutMsgs
		sum, err := s.Spend(t.Context(), "", "2026-01-02", llm.Usage{Input: 1})
		if err != nil || sum.Input != want {
			t.Errorf("Spend = %d, %v, want %d", sum.Input, err, want)
		}
		return nc.Stats().OutMsgs - before
	}
	spend(a, 1)
	if n := spend(a, 2); n != 1 {
		t.Errorf("the second Spend sends %d messages, want the write alone", n)
	}
	spend(b, 3)
	spend(a, 4)
	spend(b, 5)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), jetstore.SpendLog)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	spend(b, 1)
}
