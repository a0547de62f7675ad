package jetstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

// TestSnapshotAheadOfLog simulates a power cut that the snapshot survived and the last entry that it covers did not. The snapshot must not be used,
// and must be removed before another entry gets that version.
func TestSnapshotAheadOfLog(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, 3)
	if err := s.PutSnapshot(t.Context(), "", "c", last, []byte("fold")); err != nil {
		t.Fatal(err)
	}
	if v, b, err := s.Snapshot(t.Context(), "", "c"); v != last || string(b) != "fold" || err != nil {
		t.Fatalf("Snapshot = %d, %q, %v, want what was put", v, b, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstore.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), uint64(last)); err != nil {
		t.Fatal(err)
	}
	if v, b, err := s.Snapshot(t.Context(), "", "c"); v != 0 || b != nil || err != nil {
		t.Errorf("Snapshot = %d, %q, %v of a log that ends before it, want none", v, b, err)
	}
	kv, err := js.KeyValue(t.Context(), jetstore.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := kv.Keys(t.Context()); !errors.Is(err, jetstream.ErrNoKeysFound) {
		t.Errorf("keys are %v, %v, want none", keys, err)
	}
}

// TestAppendIsAnsweredLate simulates a server that stored an append and was killed before it answered.
func TestAppendIsAnsweredLate(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, 2)
	lost := s.LoseAnswers(1)
	v, err := s.Append(t.Context(), "", "c", last, entry(3))
	if err != nil || v != last+1 {
		t.Errorf("Append = %d, %v, want %d, as the first attempt stored it", v, err, last+1)
	}
	if *lost != 0 {
		t.Error("no answer was lost")
	}
	if n, err := count(t.Context(), t, s); n != 3 || err != nil {
		t.Errorf("Load ends after %d entries with %v, want 3", n, err)
	}
}

// TestOpenReplicas asks a single server for three replicas.
func TestOpenReplicas(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	if _, err := jetstore.Open(t.Context(), nc, nil); err != nil {
		t.Fatal(err)
	}
	_, err := jetstore.Open(t.Context(), nc, &jetstore.Options{Replicas: 3})
	var api *jetstream.APIError
	if !errors.As(err, &api) || !strings.Contains(err.Error(), "--replicas 3: the server is in no cluster") {
		t.Errorf("Open = %v, want an error that names --replicas 3", err)
	}
}
