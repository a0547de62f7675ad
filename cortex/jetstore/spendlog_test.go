package jetstore_test

import (
	"bytes"
	"log/slog"
	"strings"
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

// TestUnreadableSum has others write what is no sum over that of a day: Spent and Spend go on from what the processes know, also where one that knows
// nothing was the first to replace it, and say so.
func TestUnreadableSum(t *testing.T) {
	const day = "2026-01-02"
	nc, _ := start(t, t.TempDir())
	var said bytes.Buffer
	open := func() *jetstore.Store {
		s, err := jetstore.Open(t.Context(), nc, &jetstore.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	spend := func(s *jetstore.Store, u, want llm.Usage) {
		t.Helper()
		if sum, err := s.Spend(t.Context(), "", day, u); err != nil || sum != want {
			t.Errorf("Spend = %+v, %v, want %+v", sum, err, want)
		}
		if sum, err := s.Spent(t.Context(), "", day); err != nil || sum != want {
			t.Errorf("Spent = %+v, %v, want %+v", sum, err, want)
		}
	}
	a, b := open(), open()
	spend(b, llm.Usage{Input: 1}, llm.Usage{Input: 1})
	spend(a, llm.Usage{Input: 10, Cost: 2}, llm.Usage{Input: 11, Cost: 2})
	if said.Len() > 0 || a.SpendTrouble() != "" {
		t.Errorf("before, it says %q and %q", &said, a.SpendTrouble())
	}
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
	if _, err := kv.PutString(t.Context(), keys[0], `{"input": "many"`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if sum, err := a.Spent(t.Context(), "", day); err != nil || sum != (llm.Usage{Input: 11, Cost: 2}) {
			t.Errorf("Spent = %+v, %v, want what it knew", sum, err)
		}
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 || !strings.Contains(said.String(), `many`) || !strings.Contains(a.SpendTrouble(), day) {
		t.Errorf("it says %q and %q, want one warning with the value, and the day", &said, a.SpendTrouble())
	}
	spend(b, llm.Usage{Input: 1}, llm.Usage{Input: 2})
	spend(a, llm.Usage{Input: 100}, llm.Usage{Input: 111, Cost: 2})
	spend(b, llm.Usage{Input: 1}, llm.Usage{Input: 112, Cost: 2})
	spend(open(), llm.Usage{Input: 1}, llm.Usage{Input: 113, Cost: 2})
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
